//! Files that are there as a whole or not at all.

use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use anyhow::Context;
use tempfile::Builder;
use walkdir::{DirEntry, WalkDir};

use super::message::{ProblemKind, about};

/// Writes a file beside its place and puts it there when it is complete: an interruption or a full
/// disk leaves what was there before. A link at the place is replaced, not followed. Fails when it
/// cannot be written. The error begins with the path.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    // What is no file, such as /dev/stdout, cannot be replaced.
    if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return written(path, fs::write(path, bytes));
    }
    let mut drafts = Drafts::default();
    drafts.file(path, bytes)?;
    drafts.put()
}

/// Finds out whether a file can be written at a place, before work that may take long. Fails as
/// [`write_whole`] would.
pub(crate) fn try_file(path: &Path) -> anyhow::Result<()> {
    let is_special = |there: Metadata| !there.is_file() && !there.is_dir();
    if fs::metadata(path).is_ok_and(is_special) {
        return Ok(());
    }
    Drafts::default().file(path, b"")
}

/// Makes a folder, and those that it is in, and finds out whether files can be written there,
/// before work that may take long. Fails when one cannot be made or written in. The error begins
/// with the path.
pub(crate) fn try_folder(folder: &Path) -> anyhow::Result<MadeFolders> {
    let made = MadeFolders::of(folder).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            io::Error::new(io::ErrorKind::NotADirectory, "is no folder")
        }
        _ => error,
    });
    let made = written(folder, made)?;
    Drafts::default().folder_in(folder)?;
    Ok(made)
}

/// Files and folders that are complete before the first of them is put in its place. What is not
/// put is removed.
#[derive(Default)]
pub(crate) struct Drafts(Vec<Draft>);

struct Draft {
    path: PathBuf,
    /// Nothing while it is not known.
    place: Option<PathBuf>,
}

impl Drafts {
    /// Writes what is to be a file. Fails when it cannot be written, or something at the place is
    /// no file. The error begins with the path.
    pub(crate) fn file(&mut self, place: &Path, bytes: &[u8]) -> anyhow::Result<()> {
        let mut write = || -> io::Result<()> {
            if place.is_dir() {
                return Err(io::Error::new(io::ErrorKind::IsADirectory, "is a folder"));
            }
            let make =
                |folder: &Path| Ok(builder(0o666).tempfile_in(folder)?.into_temp_path().keep()?);
            fill(&self.draft(folder_of(place), Some(place), make)?, bytes)
        };
        written(place, write())
    }

    /// Makes an empty folder, which is to be at the place when it is filled: instead of the one
    /// that is there, or where nothing is. Returns where it is until then. Fails when it cannot be
    /// made. The error begins with the path.
    pub(crate) fn folder(&mut self, place: &Path) -> anyhow::Result<PathBuf> {
        let make = |folder: &Path| Ok(builder(0o777).tempdir_in(folder)?.keep());
        written(place, self.draft(folder_of(place), Some(place), make))
    }

    /// Makes an empty folder in another, for which [`Drafts::assign`] may find a place later.
    /// Returns where it is until then. Fails when it cannot be made. The error begins with the
    /// other folder's path.
    pub(crate) fn folder_in(&mut self, folder: &Path) -> anyhow::Result<PathBuf> {
        let make = |folder: &Path| Ok(builder(0o777).tempdir_in(folder)?.keep());
        written(folder, self.draft(folder, None, make))
    }

    /// Says where a folder is to be, after all that has a place already.
    pub(crate) fn assign(&mut self, folder: &Path, place: &Path) {
        if let Some(index) = self.0.iter().position(|draft| draft.path == folder) {
            let mut draft = self.0.remove(index);
            draft.place = Some(place.into());
            self.0.push(draft);
        }
    }

    /// Says that a file, which was made in one of these folders, is to be at a place.
    pub(crate) fn adopt(&mut self, file: &Path, place: &Path) {
        self.0.push(Draft { path: file.into(), place: Some(place.into()) });
    }

    /// Puts everything in its place, in the order in which it was drafted. Only a process that is
    /// killed at this moment leaves a part undone, and then each file and each folder is the old
    /// one or the new one. Fails when something cannot be put in its place. The error begins with
    /// the path.
    pub(crate) fn put(self) -> anyhow::Result<()> {
        // Who tidies up before the process ends waits for this.
        let _listed = listed();
        for Draft { path, place } in &self.0 {
            if let Some(place) = place {
                written(place, put(path, place))?;
            }
        }
        Ok(())
    }

    fn draft(
        &mut self,
        folder: &Path,
        place: Option<&Path>,
        make: impl FnOnce(&Path) -> io::Result<PathBuf>,
    ) -> io::Result<PathBuf> {
        let mut listed = listed();
        let path = make(folder).map_err(bare)?;
        listed.push(path.clone());
        self.0.push(Draft { path: path.clone(), place: place.map(PathBuf::from) });
        Ok(path)
    }
}

impl Drop for Draft {
    /// After a folder was put in the place of another, that one is here.
    fn drop(&mut self) {
        let mut listed = listed();
        remove(&self.path);
        listed.retain(|path| *path != self.path);
    }
}

/// Writes a file that is there and empty. One that was removed before the process ends is not made
/// once more.
fn fill(draft: &Path, bytes: &[u8]) -> io::Result<()> {
    File::options().write(true).open(draft)?.write_all(bytes)
}

/// The error without the path of a draft, of which nobody knows: `tempfile` tells it behind the
/// system's words, and hides what they were.
fn bare(error: io::Error) -> io::Error {
    let told = error.to_string();
    let system =
        told.split_once(" at path ").map(|(system, _)| io::Error::new(error.kind(), system));
    system.unwrap_or(error)
}

/// The result, an error about the call that begins with the path.
fn written<T>(path: &Path, result: io::Result<T>) -> anyhow::Result<T> {
    // The error would name a draft of ours.
    let folder = folder_of(path);
    if let (Err(error), false) = (&result, folder.exists())
        && error.kind() == io::ErrorKind::NotFound
    {
        let missing =
            Err(anyhow::anyhow!("{}: there is no folder {}", path.display(), folder.display()));
        return about(ProblemKind::Call, missing);
    }
    about(ProblemKind::Call, result.with_context(|| path.display().to_string()))
}

/// Puts a draft in its place, and what is there in the draft's, if it is a folder.
fn put(draft: &Path, place: &Path) -> io::Result<()> {
    if !draft.is_dir() || fs::symlink_metadata(place).is_err() {
        return fs::rename(draft, place);
    }
    #[cfg(any(target_os = "linux", target_os = "macos"))]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        if renameat_with(CWD, draft, CWD, place, RenameFlags::EXCHANGE).is_ok() {
            return Ok(());
        }
    }
    // Where the file system cannot exchange two folders, there is none for a moment.
    let aside = builder(0o777).tempdir_in(folder_of(place))?;
    let old = aside.path().join("old");
    fs::rename(place, &old)?;
    fs::rename(draft, place).inspect_err(|_| {
        let _ = fs::rename(&old, place);
    })
}

/// The folders that were made to write in. If nothing is put there, they are removed.
pub(crate) struct MadeFolders(Vec<PathBuf>);

/// Those of this process.
static MADE: Mutex<Vec<PathBuf>> = Mutex::new(vec![]);

impl MadeFolders {
    /// Makes a folder, and those that it is in. Fails when it cannot be made.
    fn of(folder: &Path) -> io::Result<MadeFolders> {
        make_listed(folder, &MADE).map(MadeFolders)
    }
}

/// A folder and those that it is in, as far as they are not there.
fn missing(folder: &Path) -> Vec<PathBuf> {
    let is_new = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
    folder.ancestors().take_while(is_new).map(PathBuf::from).collect()
}

/// Makes a folder, and those that it is in, which are listed before they are there. Returns those
/// that were made.
fn make_listed(folder: &Path, list: &Mutex<Vec<PathBuf>>) -> io::Result<Vec<PathBuf>> {
    // Who tidies up before the process ends waits for the folder, or the folder for ever.
    let mut listed = listed_in(list);
    let made = missing(folder);
    listed.extend(made.iter().cloned());
    fs::create_dir_all(folder)?;
    Ok(made)
}

impl Drop for MadeFolders {
    fn drop(&mut self) {
        remove_empty(&self.0);
        listed_in(&MADE).retain(|folder| !self.0.contains(folder));
    }
}

/// Removes folders, but none with anything in it.
fn remove_empty(folders: &[PathBuf]) {
    folders.iter().for_each(|folder| _ = fs::remove_dir(folder));
}

/// The drafts that this process is at.
static DRAFTS: Mutex<Vec<PathBuf>> = Mutex::new(vec![]);

fn listed() -> MutexGuard<'static, Vec<PathBuf>> {
    listed_in(&DRAFTS)
}

fn listed_in(list: &Mutex<Vec<PathBuf>>) -> MutexGuard<'_, Vec<PathBuf>> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes what is not complete, before the process ends in the middle of its work. Nothing is
/// written after it: who would list another draft or make another folder waits for ever.
pub(crate) fn remove_drafts() {
    remove_listed(&DRAFTS, &MADE);
}

fn remove_listed(drafts: &Mutex<Vec<PathBuf>>, made: &Mutex<Vec<PathBuf>>) {
    let drafts = listed_in(drafts);
    drafts.iter().for_each(|path| remove(path));
    let made = listed_in(made);
    remove_empty(&made);
    std::mem::forget((drafts, made));
}

/// Removes a file or a folder, if it is there.
fn remove(path: &Path) {
    // Another thread may be writing into the folder.
    const TRIES: usize = 100;
    for _ in 0..TRIES {
        let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        if removed.is_ok() || fs::symlink_metadata(path).is_err() {
            return;
        }
    }
}

/// What another process of this program is to write to, so that what it leaves there can be removed
/// if it is killed.
pub(crate) struct Place {
    place: PathBuf,
    /// The folders that it may make.
    missing: Vec<PathBuf>,
}

impl Place {
    /// A file, or a folder with files in it, before there is anything.
    pub(crate) fn of(place: &Path) -> Place {
        Place { place: place.into(), missing: missing(place) }
    }

    /// Removes what a process that was killed has left there, and among the temporary files.
    pub(crate) fn tidy(&self, process: u32) {
        let (prefix, place) = (prefix(process), &*self.place);
        let (folder, depth) =
            if place.is_dir() { (place, usize::MAX) } else { (folder_of(place), 1) };
        let is_draft = |entry: &DirEntry| {
            entry.file_name().to_str().is_some_and(|name| name.starts_with(&prefix))
        };
        for (folder, depth) in [(folder, depth), (&*std::env::temp_dir(), 1)] {
            let entries = WalkDir::new(folder).max_depth(depth).into_iter().filter_map(Result::ok);
            let drafts: Vec<PathBuf> = entries.filter(is_draft).map(DirEntry::into_path).collect();
            drafts.iter().for_each(|path| remove(path));
        }
        remove_empty(&self.missing);
    }
}

/// The folder that a file is in.
pub(crate) fn folder_of(place: &Path) -> &Path {
    let folder = place.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// Has a folder to itself for as long as what it returns is there: whoever else asks for it waits.
/// Where there is nothing of the kind, nobody waits.
pub(crate) fn locked(folder: &Path) -> Option<File> {
    let folder = File::open(folder).ok()?;
    folder.lock().ok().map(|()| folder)
}

fn prefix(process: u32) -> String {
    format!(".onnx-cast-{process}-")
}

static OWN_PREFIX: LazyLock<String> = LazyLock::new(|| prefix(std::process::id()));

/// Temporary files are for their owner alone; these are to become what any program writes.
fn builder(mode: u32) -> Builder<'static, 'static> {
    let mut builder = Builder::new();
    builder.prefix(OWN_PREFIX.as_str());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(Permissions::from_mode(mode));
    }
    #[cfg(not(unix))]
    let _: (u32, Option<Permissions>) = (mode, None);
    builder
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;

    /// The process is about to end: a folder that came to be after the tidying would stay.
    #[test]
    fn no_folder_is_made_after_the_tidying() {
        let parent = tempfile::tempdir().expect("a folder");
        let [drafts, made]: [&'static Mutex<Vec<PathBuf>>; 2] =
            [0, 1].map(|_| &*Box::leak(Box::default()));
        let (early, late) = (parent.path().join("a/b"), parent.path().join("c/d"));
        make_listed(&early, made).expect("a folder");
        remove_listed(drafts, made);
        assert!(!parent.path().join("a").exists());
        let folder = late.clone();
        let _waits_for_ever = thread::spawn(move || make_listed(&folder, made));
        thread::sleep(Duration::from_millis(300));
        assert!(!late.exists() && !parent.path().join("c").exists());
    }

    /// The process is about to end: a draft that was listed and is removed before it is written
    /// stays away.
    #[test]
    fn no_draft_is_written_after_the_tidying() {
        let folder = tempfile::tempdir().expect("a folder");
        let draft = folder.path().join("draft");
        fs::write(&draft, b"").expect("a file");
        fill(&draft, b"whole").expect("a file");
        assert_eq!(fs::read(&draft).expect("a file"), b"whole");
        let drafts: &'static Mutex<Vec<PathBuf>> = Box::leak(Box::new(Mutex::new(vec![draft])));
        let made: &'static Mutex<Vec<PathBuf>> = Box::leak(Box::default());
        remove_listed(drafts, made);
        fill(&folder.path().join("draft"), b"whole").expect_err("there is no draft");
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
    }
}
