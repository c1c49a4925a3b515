//! No circle among files: whoever reads one, and then what it uses, never comes back to it. Nor do
//! layers use those above them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A module, by its path from the root of its crate.
type Module = Vec<String>;

/// The layers of the library and of the command line, as `src/lib.rs` and `cli/src/cli/mod.rs` tell
/// them, by the module that they are in: none uses another of its line, nor one of a line above.
const LAYERS: &[(&str, &str, &str)] = &[
    (
        "src",
        "",
        "interpreter
        plug
        audit convert
        mend ops
        typed
        panels passes
        onnx
        tensor
        error
        cast",
    ),
    (
        "cli/src",
        "cli",
        "verb
        process
        report
        args
        work
        input
        found+measure
        caller input_file output_file progress tensor
        message",
    ),
];

/// What a module makes public under its own path though a layer above makes it.
const PUBLIC_HERE: &[(&str, &str)] = &[("audit", "crate::plug::audited::audit")];

#[test]
fn layers_use_only_those_below() {
    for (root, parent, layers) in LAYERS {
        let lines = layers.lines().enumerate();
        let named = |(line, names): (usize, &'static str)| {
            names.split_whitespace().map(move |layer| (line, layer))
        };
        let layers: Vec<(usize, &str)> = lines.flat_map(named).collect();
        let layer = |module: &Module| {
            let mut own = module.iter().skip_while(|step| step == parent);
            let own = own.next().filter(|_| parent.is_empty() || module[0] == *parent)?;
            let found = layers.iter().find(|(_, layer)| layer.split('+').any(|name| name == own));
            Some(*found.unwrap_or_else(|| panic!("{root}: `{own}` is in no layer")))
        };
        for (module, used) in uses(root) {
            let Some((line, own)) = layer(&module) else { continue };
            for other in used {
                let is_below = layer(&other).is_none_or(|(below, it)| it == own || below > line);
                let (it, other) = (module.join("::"), other.join("::"));
                assert!(is_below, "{root}: {it} uses {other}, which is not below it");
            }
        }
    }
}

#[test]
fn no_files_use_each_other_in_a_circle() {
    for root in ["src", "graph/src", "cli/src"] {
        let mut left = uses(root);
        assert!(left.values().any(|used| used.len() > 2), "{root}: no arrows were read");
        // What uses nothing that is left, or is used by nothing, is in no circle.
        loop {
            let is_used = |module: &Module| left.values().any(|used| used.contains(module));
            let ends = left.iter().filter(|(it, used)| used.is_empty() || !is_used(it));
            let done: Vec<Module> = ends.map(|(module, _)| module.clone()).collect();
            if done.is_empty() {
                break;
            }
            left.retain(|module, _| !done.contains(module));
            left.values_mut().for_each(|used| used.retain(|other| !done.contains(other)));
        }
        let arrows = left.iter().flat_map(|(module, used)| {
            used.iter().map(|other| format!("{} -> {}", module.join("::"), other.join("::")))
        });
        let arrows: Vec<String> = arrows.collect();
        assert!(arrows.is_empty(), "{root}: a circle is among\n{}", arrows.join("\n"));
    }
}

/// A folder's header lists what is in it, `- `name`: what it is for`, or tells it. One that names
/// two files or more names all.
#[test]
fn headers_list_what_is_there() {
    let (mut listed, mut left_out) = (0, vec![]);
    for root in ["src", "graph/src", "cli/src"] {
        let mut files = BTreeMap::new();
        collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join(root), &mut vec![], &mut files);
        let is_of_folder = |file: &Path| file.ends_with("mod.rs") || file.ends_with("src/lib.rs");
        for (module, file) in files.iter().filter(|(_, file)| is_of_folder(file)) {
            let text = fs::read_to_string(file).expect("a file");
            left_out.extend(left_out_of(&text, module, file, &files));
            for line in text.lines().filter_map(|line| line.strip_prefix("//! - `")) {
                let (names, _) = line.split_once("`: ").unwrap_or_default();
                for name in names.split("`, `").filter(|name| !name.is_empty()) {
                    let is_module = name
                        .chars()
                        .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
                    let inside =
                        module.iter().cloned().chain([name.to_owned()]).collect::<Module>();
                    let is_there = files.keys().any(|other| other.starts_with(&inside));
                    assert!(is_there || !is_module, "{}: lists `{name}`", file.display());
                    listed += usize::from(is_there);
                }
            }
        }
    }
    assert!(listed > 100, "{listed}: no lists were read");
    assert!(left_out.is_empty(), "{}", left_out.join("\n"));
}

/// What a folder's header does not name of what is in the folder, if it names two or more.
fn left_out_of(
    text: &str,
    module: &Module,
    file: &Path,
    files: &BTreeMap<Module, PathBuf>,
) -> Option<String> {
    let header = text.lines().filter(|line| line.starts_with("//!")).collect::<Vec<_>>().join("\n");
    let inside = files.keys().filter(|other| other.len() > module.len());
    let inside = inside.filter(|other| other.starts_with(module)).map(|other| &other[module.len()]);
    let inside: BTreeSet<&String> = inside.filter(|name| *name != "tests").collect();
    let (named, others): (Vec<_>, Vec<_>) =
        inside.into_iter().partition(|name| header.contains(&format!("`{name}`")));
    let is_list = named.len() > 1 && !others.is_empty();
    is_list.then(|| format!("{}: lists {named:?} and leaves out {others:?}", file.display()))
}

/// What each file names from the root of its crate, from the modules around and inside it or in its
/// `use` lines, but for the modules that it is in: what these hold is shared by all that is inside.
fn uses(root: &str) -> BTreeMap<Module, BTreeSet<Module>> {
    let mut files = BTreeMap::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join(root), &mut vec![], &mut files);
    let text = |file: &PathBuf| fs::read_to_string(file).expect("a file");
    let exported = files.get(&Module::new()).map_or(vec![], |file| paths(&text(file)));
    let uses = |(module, file): (&Module, &PathBuf)| {
        let own = module.join("::");
        let mut paths = paths(&text(file));
        paths.retain(|path| !PUBLIC_HERE.contains(&(&own, path)));
        let inside = |name: &str| module.iter().cloned().chain([name.into()]).collect::<Module>();
        paths.extend(in_code(&text(file), |name| files.contains_key(&inside(name))));
        // The root of the crate holds what it exports of its modules.
        let path = |path: String| {
            let of_root = path.strip_prefix("crate").filter(|name| name.rfind("::") == Some(0));
            let item = of_root.and_then(|name| exported.iter().find(|path| path.ends_with(name)));
            item.map_or(path.clone(), |item| format!("crate::{item}"))
        };
        let used = paths.into_iter().filter_map(|it| used(module, &path(it), &files));
        (module.clone(), used.filter(|other| !module.starts_with(other)).collect())
    };
    files.iter().map(uses).collect()
}

fn collect(folder: &Path, module: &mut Module, files: &mut BTreeMap<Module, PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        if path.is_dir() {
            module.push(name);
            collect(&path, module, files);
            module.pop();
        } else if path.extension().is_some_and(|extension| extension == "rs") && name != "tests" {
            let is_of_folder = ["mod", "lib", "main"].contains(&name.as_str());
            let own = (!is_of_folder).then_some(name);
            files.insert(module.iter().cloned().chain(own).collect(), path);
        }
    }
}

/// The paths of the `use` lines of a file, groups taken apart.
fn paths(text: &str) -> Vec<String> {
    let mut paths = vec![];
    let mut rest = text.lines().map(str::trim);
    while let Some(line) = rest.next() {
        let line = match line.split_once("use ") {
            Some((before, path)) if before.is_empty() || before.starts_with("pub") => path,
            _ => continue,
        };
        let mut whole = line.to_owned();
        while !whole.ends_with(';') {
            let Some(line) = rest.next() else { break };
            whole += line;
        }
        apart("", whole.trim_end_matches(';'), &mut paths);
    }
    paths
}

/// The paths in a file's other lines that begin at the root of the crate, at the module around, or
/// at one inside.
fn in_code(text: &str, is_inside: impl Fn(&str) -> bool) -> Vec<String> {
    let is_code = |line: &&str| {
        !line.starts_with("//") && !line.starts_with("use ") && !line.contains("use crate::")
    };
    let lines = text.lines().map(str::trim).filter(is_code);
    let words =
        lines.flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && !"_:".contains(c)));
    let begins = |path: &&str| {
        let first = path.split_once("::").map_or("", |(first, _)| first);
        matches!(first, "crate" | "self" | "super") || is_inside(first)
    };
    words.filter(begins).map(String::from).collect()
}

fn apart(before: &str, path: &str, paths: &mut Vec<String>) {
    let Some((own, group)) = path.split_once('{') else {
        return paths.push(format!("{before}{}", path.trim()));
    };
    let (before, mut depth, mut start) = (format!("{before}{}", own.trim()), 0, 0);
    for (place, character) in group.char_indices() {
        match character {
            '{' => depth += 1,
            ',' | '}' if depth == 0 => {
                apart(&before, &group[start..place], paths);
                start = place + 1;
            }
            '}' => depth -= 1,
            _ => {}
        }
    }
}

/// The innermost module of a path that is a file of the crate.
fn used(module: &Module, path: &str, files: &BTreeMap<Module, PathBuf>) -> Option<Module> {
    let mut at = module.clone();
    let mut is_inside = false;
    for (place, step) in path.split("::").enumerate() {
        match step {
            "crate" => at.clear(),
            "self" => {}
            "super" => drop(at.pop()),
            step => {
                let name = step.split(' ').next().unwrap_or(step).to_owned();
                at.push(name);
                if !files.contains_key(&at) {
                    at.pop();
                    return (place > 0 && is_inside).then_some(at);
                }
            }
        }
        is_inside = true;
    }
    Some(at)
}
