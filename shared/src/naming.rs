//! Names of gangs and pod groups, derived and never stored: webhook, sidecar and keeper compute
//! the same name from the same facts.

use sha2::{Digest, Sha256};

/// Bytes of the owner's name that stay readable in the gang's name.
const READABLE: usize = 40;

/// Name of the gang (and of its `PodGroup`) of the Job `name` with `uid`.
///
/// In `independent` mode each `index` has a gang of its own. For a bare pod, give the pod's name
/// and uid and no index.
///
/// ```
/// use sluice_shared::naming::gang_name;
/// let one = gang_name("maxcut", "c4b0", None);
/// assert!(one.starts_with("maxcut-") && one.len() == "maxcut-".len() + 8);
/// assert_eq!(gang_name("maxcut", "c4b0", Some(3)), format!("{one}-3"));
/// ```
#[must_use]
pub fn gang_name(name: &str, uid: &str, index: Option<u32>) -> String {
    // Job names are ASCII by validation; cutting at a character boundary keeps this total.
    let readable: String = name.chars().take(READABLE).collect();
    let readable = readable.trim_end_matches(['-', '.']);
    let digest = Sha256::digest(uid.as_bytes());
    let hash = u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]);
    match index {
        Some(index) => format!("{readable}-{hash:08x}-{index}"),
        None => format!("{readable}-{hash:08x}"),
    }
}

/// Environment name of a backend attribute: upper case, everything else becomes `_`.
///
/// ```
/// assert_eq!(sluice_shared::naming::attr_env("max-shots"), "FLUXION_MAX_SHOTS");
/// ```
#[must_use]
pub fn attr_env(key: &str) -> String {
    let key: String = key
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' })
        .collect();
    format!("{}{key}", crate::names::ENV_ATTR_PREFIX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut_and_stay_valid() {
        let name = gang_name(&"a".repeat(63), "u", Some(99_999));
        assert!(name.len() <= 63, "{name}");
        assert_eq!(gang_name(&format!("{}-x", "a".repeat(39)), "u", None), {
            let hash = gang_name("b", "u", None);
            format!("{}{}", "a".repeat(39), &hash[1..])
        });
    }

    #[test]
    fn one_name_per_uid() {
        assert_ne!(gang_name("j", "1", None), gang_name("j", "2", None));
    }
}
