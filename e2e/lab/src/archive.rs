//! Container images without an image builder: a docker-archive of one layer, written from files.

use std::{
    collections::BTreeSet,
    io::Write,
    path::{Component as Part, Path, PathBuf},
    process::Command,
};

use serde_json::json;
use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};

use crate::{
    cache::hex,
    error::{Error, Result, write},
};

/// The user that images run as.
pub const USER: u64 = 65532;

/// What is in an image.
#[derive(Debug, Clone, Default)]
pub struct Image {
    /// Name with tag, as in `sluice.local/tools:lab`.
    pub name: String,
    /// Programs and other files: place in the image, and the file it is read from. The shared
    /// libraries of programs are added.
    pub files: Vec<(PathBuf, PathBuf)>,
    /// Text files: place and content.
    pub texts: Vec<(PathBuf, String)>,
    /// Symbolic links: place and target.
    pub links: Vec<(PathBuf, PathBuf)>,
    /// Empty folders, as places for mounts.
    pub folders: Vec<PathBuf>,
    /// What is run if the pod says nothing.
    pub entrypoint: Vec<String>,
    /// Environment, as `NAME=value`.
    pub env: Vec<String>,
}

/// Writes the archive of an image.
///
/// # Errors
/// If a file cannot be read, a library is missing, or the archive cannot be written.
pub(crate) fn save(image: &Image, to: &Path) -> Result<()> {
    let layer = layer(image)?;
    let digest = hex(&Sha256::digest(&layer));
    let config = json!({
        "architecture": architecture(),
        "os": "linux",
        "config": {
            "User": USER.to_string(),
            "Env": image.env,
            "Entrypoint": image.entrypoint,
            "WorkingDir": "/",
        },
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{digest}")]},
    })
    .to_string();
    let config_name = format!("{}.json", hex(&Sha256::digest(&config)));
    let layer_name = format!("{digest}/layer.tar");
    let manifest = json!([{
        "Config": config_name,
        "RepoTags": [image.name],
        "Layers": [layer_name],
    }])
    .to_string();
    let mut tar = Builder::new(Vec::new());
    let doing = || format!("write the archive of {}", image.name);
    append(&mut tar, Path::new(&config_name), config.as_bytes(), 0o644)
        .map_err(Error::io(doing()))?;
    append(&mut tar, Path::new(&layer_name), &layer, 0o644).map_err(Error::io(doing()))?;
    append(&mut tar, Path::new("manifest.json"), manifest.as_bytes(), 0o644)
        .map_err(Error::io(doing()))?;
    write(to, tar.into_inner().map_err(Error::io(doing()))?)
}

fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn layer(image: &Image) -> Result<Vec<u8>> {
    let mut files = image.files.clone();
    for (_, from) in &image.files {
        for library in libraries(from)? {
            if !files.iter().any(|(place, _)| *place == library) {
                files.push((library.clone(), library));
            }
        }
    }
    let mut tar = Builder::new(Vec::new());
    let mut made = BTreeSet::new();
    let doing = || format!("write a layer of {}", image.name);
    let mut folders: Vec<PathBuf> = vec!["/etc".into(), "/tmp".into()];
    folders.extend(image.folders.iter().cloned());
    for folder in &folders {
        add_folder(&mut tar, folder, &mut made).map_err(Error::io(doing()))?;
    }
    let group = |name: &str| format!("root:x:0:\nnonroot:x:{USER}:{name}\n");
    let users = format!(
        "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:{USER}:{USER}:nonroot:/tmp:/sbin/nologin\n"
    );
    let mut texts: Vec<(PathBuf, String)> =
        vec![("/etc/passwd".into(), users), ("/etc/group".into(), group(""))];
    texts.extend(image.texts.iter().cloned());
    for (place, text) in &texts {
        add_folder(&mut tar, parent(place), &mut made).map_err(Error::io(doing()))?;
        append(&mut tar, relative(place)?, text.as_bytes(), 0o644).map_err(Error::io(doing()))?;
    }
    for (place, from) in &files {
        add_folder(&mut tar, parent(place), &mut made).map_err(Error::io(doing()))?;
        let content = std::fs::read(from).map_err(Error::io(format!(
            "read {} for {}",
            from.display(),
            image.name
        )))?;
        append(&mut tar, relative(place)?, &content, 0o755).map_err(Error::io(doing()))?;
    }
    for (place, target) in &image.links {
        add_folder(&mut tar, parent(place), &mut made).map_err(Error::io(doing()))?;
        let mut header = header(EntryType::Symlink, 0o777, 0);
        tar.append_link(&mut header, relative(place)?, target).map_err(Error::io(doing()))?;
    }
    tar.into_inner().map_err(Error::io(doing()))
}

fn parent(place: &Path) -> &Path {
    place.parent().unwrap_or(Path::new("/"))
}

/// A place in an image as the archive names it: without the leading slash.
fn relative(place: &Path) -> Result<&Path> {
    let inner = place.strip_prefix("/").unwrap_or(place);
    if inner.components().all(|part| matches!(part, Part::Normal(_))) && inner != Path::new("") {
        return Ok(inner);
    }
    Err(Error::Invalid(format!(
        "{} is not a place in an image: give an absolute path without `..`",
        place.display()
    )))
}

/// Adds a folder and those above it, each once.
fn add_folder(
    tar: &mut Builder<Vec<u8>>,
    folder: &Path,
    made: &mut BTreeSet<PathBuf>,
) -> std::io::Result<()> {
    let inner = folder.strip_prefix("/").unwrap_or(folder);
    let mut path = PathBuf::new();
    for part in inner.components() {
        path.push(part);
        if made.insert(path.clone()) {
            // The program may write to /tmp only.
            let rights = if path == Path::new("tmp") { 0o1777 } else { 0o755 };
            let mut header = header(EntryType::Directory, rights, 0);
            tar.append_data(&mut header, &path, std::io::empty())?;
        }
    }
    Ok(())
}

fn append(
    tar: &mut Builder<impl Write>,
    place: &Path,
    content: &[u8],
    mode: u32,
) -> std::io::Result<()> {
    let mut header = header(EntryType::Regular, mode, content.len() as u64);
    tar.append_data(&mut header, place, content)
}

/// Always the same owner and time: the same files give the same image.
fn header(kind: EntryType, mode: u32, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}

/// The shared libraries of a program, the loader among them; none if it is static or a script.
fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("ldd")
        .arg(program)
        .env("LC_ALL", "C")
        .output()
        .map_err(Error::io(format!("run ldd {}", program.display())))?;
    parse_ldd(&String::from_utf8_lossy(&output.stdout)).map_err(|library| {
        Error::Invalid(format!(
            "{} needs the library {library}, which this machine lacks: install it",
            program.display()
        ))
    })
}

/// Reads what `ldd` prints. The error is the name of a library that was not found.
fn parse_ldd(text: &str) -> std::result::Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for line in text.lines() {
        let line = line.trim();
        let path = match line.split_once(" => ") {
            Some((name, "not found")) => return Err(name.to_owned()),
            Some((_, rest)) => rest,
            None => line,
        };
        if let Some((path, _)) = path.split_once(" (0x")
            && path.starts_with('/')
        {
            found.push(PathBuf::from(path));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn libraries_are_read_from_ldd() {
        let dynamic = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibc.so.6 => /lib/x/libc.so.6 (0x00007f)\n\t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        let wanted = ["/lib/x/libc.so.6", "/lib64/ld-linux-x86-64.so.2"].map(PathBuf::from);
        assert_eq!(parse_ldd(dynamic).expect("complete"), wanted);
        assert_eq!(parse_ldd("\tstatically linked\n").expect("static"), Vec::<PathBuf>::new());
        assert_eq!(parse_ldd("\tliba.so => not found\n").expect_err("missing"), "liba.so");
    }

    #[test]
    fn the_archive_holds_what_it_says() {
        let dir = tempfile::tempdir().expect("dir");
        let image = Image {
            name: "example.test/sh:1".into(),
            files: vec![("/bin/sh".into(), "/bin/sh".into())],
            texts: vec![("/etc/app/config".into(), "value".into())],
            links: vec![("/bin/run".into(), "sh".into())],
            folders: vec!["/deep/mount/point".into()],
            entrypoint: vec!["/bin/sh".into()],
            ..Image::default()
        };
        let file = dir.path().join("image.tar");
        save(&image, &file).expect("saved");

        let outer = entries(&std::fs::read(&file).expect("archive"));
        let manifest: serde_json::Value =
            serde_json::from_slice(content(&outer, "manifest.json")).expect("manifest");
        assert_eq!(manifest[0]["RepoTags"][0], "example.test/sh:1");
        let layer = content(&outer, manifest[0]["Layers"][0].as_str().expect("layer"));
        let config: serde_json::Value = serde_json::from_slice(content(
            &outer,
            manifest[0]["Config"].as_str().expect("config"),
        ))
        .expect("config");
        assert_eq!(
            config["rootfs"]["diff_ids"][0],
            format!("sha256:{}", hex(&Sha256::digest(layer)))
        );
        assert_eq!(config["config"]["User"], "65532");

        let inner = entries(layer);
        let places: Vec<&str> = inner.iter().map(|(place, _)| place.as_str()).collect();
        for place in ["bin/sh", "bin/run", "deep/mount/point", "etc/passwd", "tmp"] {
            assert!(places.contains(&place), "{place} is not in {places:?}");
        }
        assert!(places.iter().any(|place| place.contains("libc.so")), "{places:?}");
        assert_eq!(content(&inner, "etc/app/config"), b"value");
        let mut once = places.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), places.len(), "something is there twice: {places:?}");
    }

    #[test]
    fn the_same_files_give_the_same_image() {
        let dir = tempfile::tempdir().expect("dir");
        let image = Image { name: "a:1".into(), ..Image::default() };
        let files = ["one", "two"].map(|name| dir.path().join(name));
        for file in &files {
            save(&image, file).expect("saved");
        }
        let [one, two] = files.map(|file| std::fs::read(file).expect("archive"));
        assert!(one == two);
    }

    #[test]
    fn a_place_outside_the_image_is_refused() {
        let dir = tempfile::tempdir().expect("dir");
        let texts = vec![("/etc/../../x".into(), String::new())];
        let image = Image { name: "a:1".into(), texts, ..Image::default() };
        assert!(save(&image, &dir.path().join("x")).is_err());
    }

    fn entries(tar: &[u8]) -> Vec<(String, Vec<u8>)> {
        let mut archive = tar::Archive::new(tar);
        archive
            .entries()
            .expect("a tar")
            .map(|entry| {
                let mut entry = entry.expect("an entry");
                let place = entry.path().expect("a path").to_string_lossy().into_owned();
                let mut content = Vec::new();
                entry.read_to_end(&mut content).expect("content");
                (place.trim_end_matches('/').to_owned(), content)
            })
            .collect()
    }

    fn content<'a>(entries: &'a [(String, Vec<u8>)], name: &str) -> &'a [u8] {
        &entries.iter().find(|(place, _)| place == name).expect(name).1
    }
}
