//! Files that are there as a whole or not at all.

use std::fs::{self, Permissions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::Context;
use tempfile::{Builder, TempDir};

use super::message::{ErrorKind, about};

/// Writes a file beside its place and puts it there when it is complete: an interruption or a full disk leaves what was there before. A
/// link at the place is replaced, not followed.
///
/// # Errors
///
/// When it cannot be written. The error begins with the path.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let write = || -> anyhow::Result<()> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        // What is no file, such as /dev/stdout, cannot be replaced.
        if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
            return Ok(fs::write(path, bytes)?);
        }
        let mut draft = builder(0o666).tempfile_in(folder)?;
        let _listed = Draft::listed(draft.path());
        draft.write_all(bytes)?;
        draft.persist(path)?;
        Ok(())
    };
    about(ErrorKind::Call, write().with_context(|| path.display().to_string()))
}

/// A new folder in another, to be renamed when what is in it is complete; it is removed if nobody does.
///
/// # Errors
///
/// When it cannot be made. The error begins with the path.
pub(crate) fn folder_beside(folder: &Path) -> anyhow::Result<(TempDir, Draft)> {
    let draft = builder(0o777).tempdir_in(folder).with_context(|| folder.display().to_string())?;
    let listed = Draft::listed(draft.path());
    Ok((draft, listed))
}

/// The drafts that this process is at.
static DRAFTS: Mutex<Vec<PathBuf>> = Mutex::new(vec![]);

/// A draft in the list, for as long as this is there.
pub(crate) struct Draft(PathBuf);

impl Draft {
    fn listed(path: &Path) -> Draft {
        DRAFTS.lock().unwrap_or_else(PoisonError::into_inner).push(path.into());
        Draft(path.into())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        DRAFTS.lock().unwrap_or_else(PoisonError::into_inner).retain(|path| *path != self.0);
    }
}

/// Removes what is not complete, before the process ends in the middle of its work. Nothing is written after it: who would list
/// another draft waits for ever.
pub(crate) fn remove_drafts() {
    let drafts = DRAFTS.lock().unwrap_or_else(PoisonError::into_inner);
    for path in &*drafts {
        let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    }
    std::mem::forget(drafts);
}

/// Temporary files are for their owner alone; these are to become what any program writes.
fn builder(mode: u32) -> Builder<'static, 'static> {
    let mut builder = Builder::new();
    builder.prefix(".onnx-cast-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(Permissions::from_mode(mode));
    }
    #[cfg(not(unix))]
    let _: (u32, Option<Permissions>) = (mode, None);
    builder
}
