//! When to speak of something that fails again and again, and in which words. PURE but for the
//! instants it is given.

use std::time::Duration;

use tokio::time::Instant;

/// Shorter trouble is normal at the start: the keeper makes gang and rights within seconds.
const PATIENCE: Duration = Duration::from_secs(30);
/// Lasting trouble is told again after this time.
const AGAIN: Duration = Duration::from_mins(10);

/// Trouble with one thing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Trouble {
    since: Option<Instant>,
    said: Option<Instant>,
}

impl Trouble {
    /// It failed again: whether to say so.
    pub fn note(&mut self, at: Instant) -> bool {
        let since = *self.since.get_or_insert(at);
        let due = match self.said {
            None => at.duration_since(since) >= PATIENCE,
            Some(said) => at.duration_since(said) >= AGAIN,
        };
        if due {
            self.said = Some(at);
        }
        due
    }

    /// It works: whether to say so.
    pub fn over(&mut self) -> bool {
        std::mem::take(self).said.is_some()
    }
}

/// What an error of the API server means, and what to do.
#[must_use]
pub fn explain(error: &kube::Error, gang: &str, pod_uid: &str) -> String {
    let kube::Error::Api(status) = error else {
        return format!(
            "the API server does not answer ({error}); if it lasts, a NetworkPolicy may keep the \
             pod from it"
        );
    };
    let told: String = status.message.chars().take(300).collect();
    match status.code {
        _ if told.contains("ValidatingAdmissionPolicy") => format!(
            "a policy refuses the write ({told}); only the pod that gang {gang} names as its \
             producer may write, this pod has uid {pod_uid}: see kubectl get qg -o yaml"
        ),
        401 => format!("the API server refuses the sidecar's token ({told}); was the pod deleted?"),
        403 => format!(
            "the sidecar may not use gang {gang} ({told}); the keeper makes the RoleBinding: check \
             that it runs"
        ),
        404 => format!(
            "gang {gang} does not exist ({told}); the keeper makes it: check that it runs and that \
             the QuantumGang CRD is installed"
        ),
        code => format!("the API server answers {code} for gang {gang}: {told}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_speaks_after_a_while_and_not_too_often() {
        let mut trouble = Trouble::default();
        let mut said = Vec::new();
        for second in 0..1300_u64 {
            if trouble.note(Instant::now()) {
                said.push(second);
            }
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert_eq!(said, [30, 630, 1230]);
        assert!(trouble.over());
        assert!(!trouble.over());
        assert!(!trouble.note(Instant::now()), "patient again");
    }

    #[test]
    fn each_refusal_says_what_to_do() {
        let rows = [
            (401, "Unauthorized", "token"),
            (403, "quantumgangs is forbidden", "RoleBinding"),
            (404, "the server could not find the requested resource", "keeper makes it"),
            (422, "ValidatingAdmissionPolicy 'x' with binding 'y' denied request", "uid u-1"),
            (403, "ValidatingAdmissionPolicy 'x' denied request", "uid u-1"),
            (500, "etcd is gone", "500"),
        ];
        for (code, message, expected) in rows {
            let status = kube::core::Status::failure(message, "").with_code(code);
            let text = explain(&kube::Error::Api(Box::new(status)), "ns/g", "u-1");
            assert!(text.contains(expected) && (text.contains("ns/g") || code == 401), "{text}");
        }
    }
}
