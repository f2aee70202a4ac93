//! Reads a folder of gateway documents: every file at once, each with what is wrong with it.

use lanekeeper_model::{Checked, check_yaml, split_documents};
use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::path::Path;

/// Files of a folder; a ConfigMap holds far fewer.
const MAX_FILES: usize = 1000;
/// Bytes of all files together.
const MAX_BYTES: u64 = 64 * 1024 * 1024;
/// What a document's file ends with; JSON is YAML.
const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];

/// The texts of a folder's documents, by file name.
pub(super) type Texts = BTreeMap<String, String>;

/// What a folder says.
#[derive(Default)]
pub(super) struct Contents {
    /// Documents that are right, each with its file.
    pub(super) documents: Vec<(String, Checked)>,
    /// What is wrong, by file.
    pub(super) problems: Vec<(String, String)>,
}

/// The files of a folder. Hidden ones are left alone: a mounted ConfigMap keeps its versions in such.
///
/// # Errors
///
/// When the folder or a file cannot be read, or is larger than its bound. Nothing of it counts then.
pub(super) fn read(folder: &Path) -> io::Result<Texts> {
    let mut texts = Texts::new();
    let mut left = MAX_BYTES;
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            continue;
        };
        let ending = path.extension().and_then(|ending| ending.to_str());
        let is_document = ending.is_some_and(|ending| ENDINGS.contains(&ending));
        // Reading anything else, such as a pipe that nobody writes to, may never end.
        if name.starts_with('.') || !is_document || !std::fs::metadata(&path)?.is_file() {
            continue;
        }
        if texts.len() >= MAX_FILES {
            return Err(io::Error::other(format!("more than {MAX_FILES} files")));
        }
        let mut text = String::new();
        let read = std::fs::File::open(&path)?
            .take(left + 1)
            .read_to_string(&mut text)?;
        left = u64::try_from(read)
            .ok()
            .and_then(|read| left.checked_sub(read))
            .ok_or_else(|| io::Error::other(format!("more than {MAX_BYTES} bytes")))?;
        texts.insert(name.to_owned(), text);
    }
    Ok(texts)
}

/// Checks every document of every file.
pub(super) fn check(texts: &Texts) -> Contents {
    let mut contents = Contents::default();
    for (file, text) in texts {
        for part in split_documents(text) {
            match check_yaml(part) {
                Ok(checked) => {
                    let name = &checked.gateway.name;
                    let mut known = contents.documents.iter();
                    let twin = known.find(|(_, other)| other.gateway.name == *name);
                    if let Some((first, _)) = twin {
                        let text = format!("gateway {name} is defined in {first} as well");
                        contents.problems.push((file.clone(), text));
                    } else {
                        contents.documents.push((file.clone(), checked));
                    }
                }
                Err(problems) => {
                    let lines = problems.iter().map(|problem| {
                        let place = Some(problem.pointer.as_str()).filter(|it| !it.is_empty());
                        format!("{}: {}", place.unwrap_or("/"), problem.message)
                    });
                    let text = lines.collect::<Vec<_>>().join("; ");
                    contents.problems.push((file.clone(), text));
                }
            }
        }
    }
    contents
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mounted_config_map_is_read_once_and_not_by_its_versions() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        std::fs::create_dir(path.join("..2026_12_01")).unwrap();
        std::fs::write(path.join("..2026_12_01/edge.yaml"), "gateway: edge").unwrap();
        std::os::unix::fs::symlink("..2026_12_01", path.join("..data")).unwrap();
        std::os::unix::fs::symlink("..data/edge.yaml", path.join("edge.yaml")).unwrap();
        std::fs::write(path.join("README.md"), "no document").unwrap();
        let texts = read(path).unwrap();
        assert_eq!(texts.keys().collect::<Vec<_>>(), ["edge.yaml"]);
    }

    #[test]
    fn one_wrong_document_leaves_the_others_right() {
        let texts = Texts::from([
            (
                "a.yaml".to_owned(),
                "gateway: one\n---\ngateway: two\n".to_owned(),
            ),
            ("b.yaml".to_owned(), "gateway: two\n".to_owned()),
            ("c.json".to_owned(), "{\"gateway\": 7}".to_owned()),
        ]);
        let contents = check(&texts);
        let names = contents.documents.iter();
        let names: Vec<_> = names.map(|(_, it)| it.gateway.name.to_string()).collect();
        assert_eq!(names, ["one", "two"]);
        let files: Vec<_> = contents.problems.iter().map(|(file, _)| file).collect();
        assert_eq!(files, ["b.yaml", "c.json"]);
    }
}
