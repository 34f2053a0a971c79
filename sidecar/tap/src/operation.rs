//! Which requests are Braket's: the table of method and path that the tap forwards.

use http::Method;

/// An operation of the Braket model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// `POST /quantum-task`: a submission.
    CreateQuantumTask,
    /// `GET /quantum-task/{arn}`: a poll.
    GetQuantumTask,
    /// `POST /quantum-tasks`.
    SearchQuantumTasks,
    /// `PUT /quantum-task/{arn}/cancel`.
    CancelQuantumTask,
    /// `GET /device/{arn}`.
    GetDevice,
    /// `POST /devices`.
    SearchDevices,
    /// `POST /job`.
    CreateJob,
    /// `GET /job/{arn}`.
    GetJob,
    /// `POST /jobs`.
    SearchJobs,
    /// `PUT /job/{arn}/cancel`.
    CancelJob,
    /// `POST /tags/{arn}`.
    TagResource,
    /// `DELETE /tags/{arn}`.
    UntagResource,
    /// `GET /tags/{arn}`.
    ListTagsForResource,
    /// `POST /spending-limit`.
    CreateSpendingLimit,
    /// `POST /spending-limits`.
    SearchSpendingLimits,
    /// `PATCH /spending-limit/{arn}/update`.
    UpdateSpendingLimit,
    /// `DELETE /spending-limit/{arn}/delete`.
    DeleteSpendingLimit,
}

/// Whether a request may be sent a second time when its answer was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// Doing it again changes nothing.
    Freely,
    /// Only the vendor's check of the `clientToken` makes the second one harmless.
    WithToken,
}

impl Operation {
    /// Reads method and raw path. The second value is the raw, still encoded ARN of the path.
    ///
    /// The path is taken apart as it stands: an ARN is one encoded segment, so a decoded slash
    /// makes another path, which is not Braket's.
    #[must_use]
    pub fn of<'a>(method: &Method, path: &'a str) -> Option<(Self, Option<&'a str>)> {
        let mut segments = path.strip_prefix('/')?.split('/');
        let head = segments.next()?;
        let arn = segments.next();
        let verb = segments.next();
        if segments.next().is_some() || arn.is_some_and(is_no_name) {
            return None;
        }
        let operation = match (method.as_str(), head, arn.is_some(), verb) {
            ("POST", "quantum-task", false, None) => Self::CreateQuantumTask,
            ("GET", "quantum-task", true, None) => Self::GetQuantumTask,
            ("POST", "quantum-tasks", false, None) => Self::SearchQuantumTasks,
            ("PUT", "quantum-task", true, Some("cancel")) => Self::CancelQuantumTask,
            ("GET", "device", true, None) => Self::GetDevice,
            ("POST", "devices", false, None) => Self::SearchDevices,
            ("POST", "job", false, None) => Self::CreateJob,
            ("GET", "job", true, None) => Self::GetJob,
            ("POST", "jobs", false, None) => Self::SearchJobs,
            ("PUT", "job", true, Some("cancel")) => Self::CancelJob,
            ("POST", "tags", true, None) => Self::TagResource,
            ("DELETE", "tags", true, None) => Self::UntagResource,
            ("GET", "tags", true, None) => Self::ListTagsForResource,
            ("POST", "spending-limit", false, None) => Self::CreateSpendingLimit,
            ("POST", "spending-limits", false, None) => Self::SearchSpendingLimits,
            ("PATCH", "spending-limit", true, Some("update")) => Self::UpdateSpendingLimit,
            ("DELETE", "spending-limit", true, Some("delete")) => Self::DeleteSpendingLimit,
            _ => return None,
        };
        Some((operation, arn))
    }

    /// Whether it may be sent again after a lost answer.
    #[must_use]
    pub const fn repeat(self) -> Repeat {
        match self {
            Self::CreateQuantumTask | Self::CreateJob | Self::CreateSpendingLimit => {
                Repeat::WithToken
            }
            _ => Repeat::Freely,
        }
    }

    /// Whether the ARN of its path is that of a task.
    #[must_use]
    pub const fn names_a_task(self) -> bool {
        matches!(self, Self::GetQuantumTask | Self::CancelQuantumTask)
    }

    /// Whether the tap reads the answer.
    #[must_use]
    pub const fn is_read(self) -> bool {
        matches!(self, Self::CreateQuantumTask | Self::GetQuantumTask | Self::CreateJob)
    }
}

/// Segments that a path normaliser on the way would swallow.
fn is_no_name(segment: &str) -> bool {
    let plain = segment.to_ascii_lowercase().replace("%2e", ".");
    matches!(plain.as_str(), "" | "." | "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARN: &str = "arn%3Aaws%3Abraket%3Aeu-north-1%3A123456789012%3Aquantum-task%2Fabc-1";

    #[test]
    fn every_operation_of_the_model_is_known() {
        let table = [
            ("POST", "/quantum-task".to_owned(), Operation::CreateQuantumTask),
            ("GET", format!("/quantum-task/{ARN}"), Operation::GetQuantumTask),
            ("POST", "/quantum-tasks".to_owned(), Operation::SearchQuantumTasks),
            ("PUT", format!("/quantum-task/{ARN}/cancel"), Operation::CancelQuantumTask),
            ("GET", format!("/device/{ARN}"), Operation::GetDevice),
            ("POST", "/devices".to_owned(), Operation::SearchDevices),
            ("POST", "/job".to_owned(), Operation::CreateJob),
            ("GET", format!("/job/{ARN}"), Operation::GetJob),
            ("POST", "/jobs".to_owned(), Operation::SearchJobs),
            ("PUT", format!("/job/{ARN}/cancel"), Operation::CancelJob),
            ("POST", format!("/tags/{ARN}"), Operation::TagResource),
            ("DELETE", format!("/tags/{ARN}"), Operation::UntagResource),
            ("GET", format!("/tags/{ARN}"), Operation::ListTagsForResource),
            ("POST", "/spending-limit".to_owned(), Operation::CreateSpendingLimit),
            ("POST", "/spending-limits".to_owned(), Operation::SearchSpendingLimits),
            ("PATCH", format!("/spending-limit/{ARN}/update"), Operation::UpdateSpendingLimit),
            ("DELETE", format!("/spending-limit/{ARN}/delete"), Operation::DeleteSpendingLimit),
        ];
        for (method, path, operation) in table {
            let method: Method = method.parse().unwrap();
            let (found, arn) = Operation::of(&method, &path).unwrap();
            assert_eq!(found, operation, "{method} {path}");
            assert_eq!(arn, path.contains(ARN).then_some(ARN), "{method} {path}");
        }
    }

    #[test]
    fn nothing_else_is_forwarded() {
        for (method, path) in [
            ("GET", "/"),
            ("GET", "/quantum-task"),
            ("GET", "/quantum-task/"),
            ("GET", "/quantum-task/.."),
            ("GET", "/quantum-task/%2E%2e"),
            ("GET", "/quantum-task/a/b"),
            ("PUT", "/quantum-task/a/cancel/now"),
            ("PUT", "/quantum-task//cancel"),
            ("DELETE", "/quantum-task/a"),
            ("POST", "/quantum-task/a"),
            ("POST", "//quantum-task"),
            ("POST", "/quantum-task/"),
            ("GET", "/latest/meta-data"),
            ("GET", "quantum-task/a"),
            ("HEAD", "/device/a"),
        ] {
            let method: Method = method.parse().unwrap();
            assert_eq!(Operation::of(&method, path), None, "{method} {path}");
        }
    }

    #[test]
    fn only_creations_need_a_token_to_be_repeated() {
        assert_eq!(Operation::CreateQuantumTask.repeat(), Repeat::WithToken);
        assert_eq!(Operation::CreateJob.repeat(), Repeat::WithToken);
        assert_eq!(Operation::CancelQuantumTask.repeat(), Repeat::Freely);
        assert_eq!(Operation::SearchQuantumTasks.repeat(), Repeat::Freely);
    }
}
