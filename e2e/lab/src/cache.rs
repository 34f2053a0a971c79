//! The folder outside the checkout that keeps what takes long to build.
//!
//! `$SLUICE_CACHE`, else `$XDG_CACHE_HOME/sluice`, else `~/.cache/sluice`. Every entry is a folder
//! `<kind>/<key>`, the key being a hash of what it was built from. An entry that exists is
//! complete: it is built beside its place and renamed.

use std::{
    ffi::OsString,
    fs::File,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

use crate::error::{Error, Result, make_dir};

/// The folder of the cache.
///
/// # Errors
/// If no environment variable says where it could be.
pub fn root() -> Result<PathBuf> {
    let var = std::env::var_os;
    root_of(var("SLUICE_CACHE"), var("XDG_CACHE_HOME"), var("HOME")).ok_or_else(|| {
        Error::Invalid(
            "there is no place for the cache: set SLUICE_CACHE (or HOME) to a folder".to_owned(),
        )
    })
}

fn root_of(
    own: Option<OsString>,
    xdg: Option<OsString>,
    home: Option<OsString>,
) -> Option<PathBuf> {
    let set = |value: Option<OsString>| value.filter(|v| !v.is_empty()).map(PathBuf::from);
    set(own)
        .or_else(|| set(xdg).map(|dir| dir.join("sluice")))
        .or_else(|| set(home).map(|dir| dir.join(".cache/sluice")))
}

/// The key of an entry: 16 hex digits over named inputs.
#[must_use]
pub fn key(inputs: &[(&str, &[u8])]) -> String {
    let mut hash = Sha256::new();
    for (name, content) in inputs {
        // With lengths, so that no two lists of inputs run into one.
        hash.update((name.len() as u64).to_le_bytes());
        hash.update(name);
        hash.update((content.len() as u64).to_le_bytes());
        hash.update(content);
    }
    hex(&hash.finalize())[..16].to_owned()
}

/// Bytes as lower-case hex digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.extend(
            [byte >> 4, byte & 15].map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)])),
        );
    }
    text
}

/// The entry `kind/key`: where it is, built first if it is missing. Of several processes that
/// want it, one builds and the others wait. `build` fills the folder it is given.
///
/// # Errors
/// What `build` returns, or if the folder cannot be written.
pub fn entry(kind: &str, key: &str, build: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    entry_in(&root()?, kind, key, build)
}

fn entry_in(
    root: &Path,
    kind: &str,
    key: &str,
    build: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let folder = root.join(kind);
    let place = folder.join(key);
    if place.is_dir() {
        return Ok(place);
    }
    make_dir(&folder)?;
    let lock_path = folder.join(format!(".{key}.lock"));
    let lock = File::create(&lock_path)
        .map_err(Error::io(format!("make the lock {}", lock_path.display())))?;
    lock.lock().map_err(Error::io(format!("lock {}", lock_path.display())))?;
    if place.is_dir() {
        return Ok(place);
    }
    let work = folder.join(format!(".{key}.building"));
    if work.exists() {
        // Left by a build that was killed.
        std::fs::remove_dir_all(&work)
            .map_err(Error::io(format!("remove the unfinished {}", work.display())))?;
    }
    make_dir(&work)?;
    build(&work)?;
    std::fs::rename(&work, &place).map_err(Error::io(format!(
        "move {} to {}",
        work.display(),
        place.display()
    )))?;
    Ok(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_follows_the_environment() {
        let os = |text: &str| Some(OsString::from(text));
        assert_eq!(root_of(os("/a"), os("/b"), os("/c")), Some("/a".into()));
        assert_eq!(root_of(os(""), os("/b"), os("/c")), Some("/b/sluice".into()));
        assert_eq!(root_of(None, None, os("/c")), Some("/c/.cache/sluice".into()));
        assert_eq!(root_of(None, None, None), None);
    }

    #[test]
    fn keys_tell_inputs_apart() {
        let of = |inputs: &[(&str, &[u8])]| key(inputs);
        assert_eq!(of(&[("a", b"1")]), of(&[("a", b"1")]));
        assert_ne!(of(&[("a", b"1")]), of(&[("a", b"2")]));
        assert_ne!(of(&[("ab", b"c")]), of(&[("a", b"bc")]));
        assert_eq!(of(&[]).len(), 16);
    }

    #[test]
    fn an_entry_appears_whole_and_is_built_once() {
        let root = tempfile::tempdir().expect("temp dir");
        let failed = entry_in(root.path(), "kind", "key", |dir| {
            std::fs::write(dir.join("half"), "x").expect("write");
            Err(Error::Invalid("broken".to_owned()))
        });
        assert!(failed.is_err());
        assert!(!root.path().join("kind/key").exists());
        let place = entry_in(root.path(), "kind", "key", |dir| {
            assert!(!dir.join("half").exists(), "the failed build was not cleared");
            std::fs::write(dir.join("whole"), "x").map_err(Error::io("write"))
        })
        .expect("built");
        assert!(place.join("whole").exists());
        let again = entry_in(root.path(), "kind", "key", |_| Err(Error::Invalid("twice".into())));
        assert_eq!(again.expect("kept"), place);
    }
}
