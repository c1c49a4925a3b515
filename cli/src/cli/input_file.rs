//! Files that are read: regular ones, for a pipe is waited for and a device may never end.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::path::Path;

/// A regular file, open to be read, and how many bytes it has.
pub(crate) struct Regular {
    file: File,
    /// In bytes, when it was opened.
    pub(crate) length: u64,
}

/// Opens a file to be read. What it is, its descriptor says: the path may lead elsewhere a moment
/// later. Fails when it cannot be opened, or is a folder, a pipe, a socket or a device, be it
/// through a link.
pub(crate) fn open_regular(path: &Path) -> io::Result<Regular> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt;
        // Whoever opens a pipe otherwise waits for its other end, and a terminal may become the
        // process's own.
        options.custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed());
    }
    let file = options.open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "is no file"));
    }
    Ok(Regular { file, length: metadata.len() })
}

/// Reads a file as a whole, and no further than it was long when it was opened.
/// Fails as [`open_regular`], or when it cannot be read.
pub(crate) fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    let Regular { file, length } = open_regular(path)?;
    let mut bytes = vec![];
    file.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// As [`read_regular`], of text. Fails as [`read_regular`], or when it is not UTF-8.
pub(crate) fn read_regular_text(path: &Path) -> io::Result<String> {
    let text = String::from_utf8(read_regular(path)?);
    text.map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "is not UTF-8"))
}

impl Regular {
    /// The file, to be read from its start.
    pub(crate) fn into_file(self) -> File {
        self.file
    }
}
