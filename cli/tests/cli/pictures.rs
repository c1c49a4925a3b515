//! The pictures of pages in docs/images. `make pictures` makes them, with the text of their pages
//! beside them; whatever changes the pages after that fails here.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use assert_cmd::cargo::cargo_bin;

use crate::common::cases::root;
use crate::common::machine::browser;
use crate::documented::agrees;
use crate::program::Folder;

const COMPARE: &str = "compare models/whole/rms_norm_FLOAT models/whole/rms_norm_FLOAT16";
const AUDIT: &str = "audit models/whole/rms_norm_FLOAT16";
const SEVERAL: &str = "audit models/whole/int64_timestamps models/whole/mlp_weights_INT4 models/whole/qdq_channels \
                       models/whole/qdq_dynamic models/whole/rms_norm_FLOAT16";
/// The name of a picture, what makes its page, and its size in pixels.
const PICTURES: [(&str, &str, [u32; 2]); 3] = [
    ("compare", COMPARE, [1280, 1180]),
    ("audit", AUDIT, [1280, 900]),
    ("phone", COMPARE, [PHONE, 900]),
];
/// The width of a small phone.
const PHONE: u32 = 375;

#[test]
fn the_pictures_show_the_pages_as_they_are() {
    let is_made = std::env::var_os("PICTURES").is_some();
    let mut stale = vec![];
    for (name, call, [width, height]) in PICTURES {
        let folder = Folder::new();
        let page = page(&folder, call);
        let text = text_of(&fs::read_to_string(&page).expect("a page"));
        let (picture, kept) = (image(&format!("{name}.png")), image(&format!("{name}.txt")));
        if is_made {
            let shown = framed(&folder, &page, width, height);
            let to = format!("--screenshot={}", picture.display());
            open(&folder, &shown, width.max(600), height, &to).expect("a browser");
            fs::write(kept, text.join("\n") + "\n").expect("written");
            continue;
        }
        let kept = fs::read_to_string(kept).expect("the text of a picture");
        let kept: Vec<String> = kept.lines().map(str::to_owned).collect();
        let bytes = fs::read(picture).expect("a picture");
        if !agrees(&kept, &text) || !bytes.starts_with(b"\x89PNG") {
            stale.push(format!("{name}:\n{}", text.join("\n")));
        }
    }
    assert!(stale.is_empty(), "`make pictures` makes them anew:\n{}", stale.join("\n\n"));
}

/// Tables scroll by themselves; the page does not.
#[test]
fn pages_are_no_wider_than_a_phone() {
    for call in [COMPARE, AUDIT, SEVERAL] {
        let folder = Folder::new();
        let page = page(&folder, call);
        let shown = framed(&folder, &page, PHONE, 800);
        let Some(dom) = open(&folder, &shown, 600, 800, "--dump-dom") else { return };
        assert!(dom.contains(&format!("<title>{PHONE} wide</title>")), "{call}: {dom}");
    }
}

/// The page of a call.
fn page(folder: &Folder, call: &str) -> PathBuf {
    symlink(root().join("models"), folder.path("models")).expect("a link");
    let mut program = Command::new(cargo_bin!("onnx-cast"));
    program.args(call.split(' ')).args(["--report", "page.html"]).current_dir(folder.path(""));
    program.output().expect("the program starts");
    folder.path("page.html")
}

fn image(name: &str) -> PathBuf {
    root().join("docs/images").join(name)
}

/// A page that shows another in so many pixels, which a browser's window cannot be as narrow as,
/// and says how wide that is.
fn framed(folder: &Folder, page: &Path, width: u32, height: u32) -> PathBuf {
    let frame = format!(
        "<body style=\"margin:0\"><iframe src=\"{}\" style=\"border:0;width:{width}px;height:{height}px\" \
         onload=\"document.title = contentDocument.documentElement.scrollWidth + ' wide'\"></iframe>",
        page.file_name().expect("a name").display()
    );
    folder.write("frame.html", frame).into()
}

/// What a browser says of a page, or does; `None` where there is no browser.
fn open(folder: &Folder, page: &Path, width: u32, height: u32, what: &str) -> Option<String> {
    let mut command = Command::new(browser()?);
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]);
    command.args(["--no-first-run", "--allow-file-access-from-files", what]);
    command.arg(format!("--user-data-dir={}", folder.text("profile")));
    command.arg(format!("--window-size={width},{height}"));
    command.arg(format!("file://{}", page.display()));
    let said = command.output().expect("the browser starts").stdout;
    Some(String::from_utf8(said).expect("UTF-8"))
}

/// The words of a page, a line for each element, and what its style and its script are.
fn text_of(html: &str) -> Vec<String> {
    let mut rest = html.to_owned();
    let mut lines = vec![];
    for element in ["style", "script", "svg", "footer"] {
        while let Some(start) = rest.find(&format!("<{element}")) {
            let end = format!("</{element}>");
            let length = rest[start..].find(&end).expect("an end") + end.len();
            let part = rest[start..start + length].to_owned();
            rest.replace_range(start..start + length, "");
            if ["style", "script"].contains(&element) {
                lines.push(format!("{element} {:x}", digest(&part)));
            }
        }
    }
    let texts = rest.split('<').map(|part| part.split_once('>').map_or("", |(_, text)| text));
    lines.extend(texts.map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned));
    lines
}

/// FNV-1a.
fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
