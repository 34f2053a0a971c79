//! Texts of others that are repeated in ours: cut, and without what could be a credential.
//!
//! A vendor that refuses a signature may answer with the request as it saw it, session token
//! included, and a reason may hold a presigned URL.

/// Names after which a secret follows, behind `=` or `:`. Lower case.
const NAMES: [&str; 9] = [
    "x-amz-security-token",
    "x-amz-signature",
    "signature",
    "authorization",
    "secretaccesskey",
    "secret_access_key",
    "secret",
    "token",
    "password",
];
/// What is written instead.
const HIDDEN: &str = "…";

/// At most `most` characters of a text of somebody else, without secrets.
#[must_use]
pub fn quote(text: &str, most: usize) -> String {
    let hidden = without_users(&without_values(text));
    hidden.chars().take(most).collect()
}

/// Hides what follows one of the names.
fn without_values(text: &str) -> String {
    // The same length as `text`, so that places agree.
    let lower = text.to_ascii_lowercase();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let found = NAMES
            .iter()
            .filter_map(|name| lower[at..].find(name).map(|place| (at + place, name.len())))
            .min_by_key(|(place, length)| (*place, usize::MAX - length));
        let Some((place, length)) = found else { break };
        let end = place + length;
        out.push_str(&text[at..end]);
        let value = value_after(&lower[..end], &text[end..]);
        if let Some((before, length)) = value {
            out.push_str(&text[end..end + before]);
            out.push_str(HIDDEN);
            at = end + before + length;
        } else {
            at = end;
        }
    }
    out.push_str(&text[at..]);
    out
}

/// Where the value starts in `rest`, which follows a name, and how long it is.
fn value_after(name: &str, rest: &str) -> Option<(usize, usize)> {
    // In JSON the name is quoted, and in some texts escaped.
    let mark = rest.trim_start_matches(['"', '\\', '\'', ' ']);
    let mark = mark.strip_prefix([':', '=']).or_else(|| mark.strip_prefix("%3D"))?;
    let value = mark.trim_start_matches(['"', '\\', '\'', ' ']);
    let start = rest.len() - value.len();
    // A header's value has blanks in it.
    let whole_line = name.ends_with("authorization");
    let ends = |c: char| {
        let in_value = whole_line && c == ' ';
        !in_value && (c.is_whitespace() || c.is_control() || "\"'\\&<>,;)".contains(c))
    };
    let length = value.find(ends).unwrap_or(value.len());
    (length > 0).then_some((start, length))
}

/// Hides user and password in URLs.
fn without_users(text: &str) -> String {
    let mut parts = text.split("://");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push_str("://");
        let authority = part.find(|c: char| "/?# \"'<>".contains(c)).unwrap_or(part.len());
        match part[..authority].rfind('@') {
            Some(user) => {
                out.push_str(HIDDEN);
                out.push_str(&part[user..]);
            }
            None => out.push_str(part),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn secrets_are_hidden_and_the_rest_is_kept() {
        for (text, expected) in [
            ("Rate exceeded", "Rate exceeded"),
            ("the token is expired", "the token is expired"),
            (
                "host:braket\nx-amz-date:2026\nx-amz-security-token:hush/+=\n\nhost;x-amz-date",
                "host:braket\nx-amz-date:2026\nx-amz-security-token:…\n\nhost;x-amz-date",
            ),
            (
                "GET https://b.s3/x?X-Amz-Date=1&X-Amz-Security-Token=hush&X-Amz-Signature=hush is gone",
                "GET https://b.s3/x?X-Amz-Date=1&X-Amz-Security-Token=…&X-Amz-Signature=… is gone",
            ),
            (
                "Authorization: AWS4-HMAC-SHA256 Credential=A/b, Signature=hush",
                "Authorization: …, Signature=…",
            ),
            ("{\"SessionToken\": \"hush\", \"a\": 1}", "{\"SessionToken\": \"…\", \"a\": 1}"),
            ("proxy http://me:hush@p:3128/x a@b", "proxy http://…@p:3128/x a@b"),
            ("SecretAccessKey=hush", "SecretAccessKey=…"),
            ("aws_secret_access_key = hush", "aws_secret_access_key = …"),
        ] {
            assert_eq!(quote(text, 999), expected);
        }
    }

    #[test]
    fn it_is_cut_by_characters() {
        assert_eq!(quote("äöü", 2), "äö");
    }

    proptest! {
        #[test]
        fn any_text_is_taken(text in ".{0,200}") {
            let found = quote(&text, 50);
            prop_assert!(found.chars().count() <= 50);
        }

        #[test]
        fn a_value_after_a_name_never_shows(value in "[A-Za-z0-9/+]{8,40}", name in 0..NAMES.len(), mark in "[:=]") {
            let text = format!("before {}{mark}{value} after", NAMES[name]);
            prop_assert!(!quote(&text, 999).contains(&value));
        }
    }
}
