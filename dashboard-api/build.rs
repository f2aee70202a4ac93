//! Embeds the page that `make web` built, with its compressed forms; without one, nothing but a page
//! that says how to build it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Where the page's build puts its files. `page` is always there, so that a build without the page
/// is not repeated each time.
const PAGE: &str = "page";
const BUILT: &str = "page/built";
/// Endings of compressed forms.
const COMPRESSED: [&str; 2] = ["gz", "br"];

fn main() -> io::Result<()> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={PAGE}");
    let folder = env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?;
    let built = Path::new(&folder).join(BUILT);
    let mut files = Vec::new();
    if built.join("index.html").is_file() {
        collect(&built, &mut files)?;
    }
    files.sort();
    let mut text = String::from("&[\n");
    for file in files.iter().filter(|file| !is_compressed(file)) {
        let name = file.strip_prefix(&built).map_err(io::Error::other)?;
        write_asset(&mut text, name, file);
    }
    text.push_str("]\n");
    let out = env::var("OUT_DIR").map_err(io::Error::other)?;
    fs::write(Path::new(&out).join("assets.rs"), text)
}

fn is_compressed(file: &Path) -> bool {
    let ending = file.extension().and_then(|ending| ending.to_str());
    ending.is_some_and(|ending| COMPRESSED.contains(&ending))
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

fn write_asset(text: &mut String, name: &Path, file: &Path) {
    let kind = match name.extension().and_then(|ending| ending.to_str()) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("json") => "application/json",
        _ => "application/octet-stream",
    };
    let compressed = |ending: &str| {
        let mut path = file.as_os_str().to_owned();
        path.push(".");
        path.push(ending);
        let path = PathBuf::from(path);
        match path.is_file() {
            true => format!("Some(include_bytes!({path:?}))"),
            false => "None".to_owned(),
        }
    };
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "Asset {{ name: {name:?}, kind: {kind:?}, plain: include_bytes!({file:?}), gzip: {}, brotli: {} }},",
        compressed("gz"),
        compressed("br"),
    );
}
