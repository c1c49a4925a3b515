//! The corpus of the fuzz targets, checked again.

use std::fs;
use std::path::Path;

#[path = "../../fuzz/src/checks/mod.rs"]
mod checks;

#[test]
fn what_fuzzing_has_reached_still_holds() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    for (target, check) in checks::CHECKS {
        let folder = fs::read_dir(corpus.join(target)).expect(target);
        let mut files: Vec<_> = folder.map(|entry| entry.expect(target).path()).collect();
        files.sort();
        assert!(files.len() > 10, "{target}: {} files", files.len());
        for path in files {
            check(&fs::read(&path).expect("a file of the corpus"));
        }
    }
}
