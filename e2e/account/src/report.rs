//! The report: what was expected, what was seen. No secret is in it, and no whole account number.

use std::fmt::Write;

use jiff::Timestamp;
use serde::Serialize;
use sluice_shared::task::device_name;

use crate::args::Args;

/// How an item ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    /// As Sluice relies on it.
    Expected,
    /// Otherwise: an issue is welcome.
    Differs,
    /// It could not be looked at; what was seen says why.
    Unseen,
}

impl Verdict {
    const fn word(self) -> &'static str {
        match self {
            Self::Expected => "as expected",
            Self::Differs => "DIFFERS",
            Self::Unseen => "not seen",
        }
    }
}

/// One item.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Finding {
    /// What was asked.
    pub question: &'static str,
    /// How it ended.
    pub verdict: Verdict,
    /// The vendor's words, cut and masked.
    pub seen: Vec<String>,
}

/// Everything that was found.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Report {
    at: Timestamp,
    version: &'static str,
    sdk: &'static str,
    region: String,
    qpu: Option<String>,
    findings: Vec<Finding>,
}

/// Longest text of the vendor that is repeated.
const LONGEST: usize = 300;

impl Report {
    pub(crate) fn new(args: &Args) -> Self {
        Self {
            at: Timestamp::now(),
            version: env!("CARGO_PKG_VERSION"),
            sdk: aws_sdk_braket::meta::PKG_VERSION,
            region: args.region.clone(),
            qpu: args.qpu.as_deref().map(device_name),
            findings: Vec::new(),
        }
    }

    /// Takes in a finding and gives its line for the terminal.
    pub(crate) fn add(&mut self, mut finding: Finding) -> String {
        for text in &mut finding.seen {
            *text = masked(text);
        }
        let first = finding.seen.first().map(|s| format!(": {s}")).unwrap_or_default();
        let line = format!("{:<12} {}{first}", finding.verdict.word(), finding.question);
        self.findings.push(finding);
        line
    }

    /// Whether every item was as expected.
    pub(crate) fn is_good(&self) -> bool {
        self.findings.iter().all(|f| f.verdict == Verdict::Expected)
    }

    /// The sum in one sentence.
    pub(crate) fn sum(&self) -> String {
        let count = |verdict| self.findings.iter().filter(|f| f.verdict == verdict).count();
        format!(
            "{} as expected, {} differ, {} not seen",
            count(Verdict::Expected),
            count(Verdict::Differs),
            count(Verdict::Unseen)
        )
    }

    /// The file.
    pub(crate) fn markdown(&self) -> String {
        let mut text = format!(
            "# Sluice at a real account\n\n{} · Sluice {} · aws-sdk-braket {} · region {}{}\n\n\
             {}. No secret is in this file; account numbers are masked.\n",
            self.at.strftime("%F %H:%M UTC"),
            self.version,
            self.sdk,
            self.region,
            self.qpu.as_ref().map(|q| format!(" · QPU {q}")).unwrap_or_default(),
            self.sum()
        );
        for finding in &self.findings {
            // A `String` takes every text.
            let _ = write!(text, "\n## {}\n\n**{}**\n\n", finding.question, finding.verdict.word());
            for seen in &finding.seen {
                let _ = writeln!(text, "* {}", seen.replace('\n', " "));
            }
        }
        text
    }
}

/// The text, cut, with every run of twelve digits (an account) masked, and every word that may be
/// a key id.
fn masked(text: &str) -> String {
    let text: String = text.chars().take(LONGEST).collect();
    let mut out = String::with_capacity(text.len());
    let mut word = String::new();
    for c in text.chars().chain(std::iter::once(' ')) {
        if c.is_ascii_alphanumeric() {
            word.push(c);
            continue;
        }
        out.push_str(&hidden(&word));
        word.clear();
        out.push(c);
    }
    out.pop();
    out
}

fn hidden(word: &str) -> String {
    let account = word.len() == 12 && word.bytes().all(|b| b.is_ascii_digit());
    let key = word.len() >= 10 && ["AKI", "ASI", "ARO"].iter().any(|start| word.starts_with(start));
    if account || key { "…".to_owned() } else { word.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_and_keys_are_masked_and_the_rest_is_kept() {
        let text = "User: arn:aws:iam::123456789012:user/x with AKIAIOSFODNN7EXAMPLE at 20261130";
        assert_eq!(masked(text), "User: arn:aws:iam::…:user/x with … at 20261130");
        assert_eq!(masked("position >2000"), "position >2000");
        assert_eq!(masked(&"x".repeat(1000)).len(), LONGEST);
    }
}
