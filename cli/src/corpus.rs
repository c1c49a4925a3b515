//! The corpus of the fuzz targets that take parts of the command line, checked again.

#[path = "../../fuzz/src/readers.rs"]
mod readers;
#[path = "../../fuzz/src/record.rs"]
mod record;

use std::fs;
use std::path::Path;

fn replay(target: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{target}: {error}"));
    let mut count = 0;
    for entry in entries {
        let path = entry.expect("a corpus").path();
        println!("{}", path.display());
        check(&fs::read(&path).expect("an input"));
        count += 1;
    }
    assert!(count >= 100, "{target}: {count}");
}

#[test]
fn what_is_read_does_not_panic() {
    replay("readers", readers::read);
}

#[test]
fn what_is_copied_stays_in_its_folder() {
    replay("record", record::copies);
}
