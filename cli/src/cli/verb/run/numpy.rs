//! Outputs as NumPy's files: a .npy holds one array, a .npz several by name.

use std::collections::HashSet;
use std::io::{Cursor, Write};
use std::path::Path;

use anyhow::{bail, ensure};
use tract_onnx::prelude::*;
use tract_onnx_cast::ElementType;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use crate::cli::message::{at, shortened_line};
use crate::cli::output_file::write_whole;
use crate::cli::tensor::NamedTensor;

/// Writes the outputs. A type that NumPy lacks is written as its bit patterns, which `-i` takes as
/// well. Fails when the file is a .npy and there is not one output, or it cannot be written.
pub(super) fn write(outputs: &[NamedTensor], path: &Path) -> TractResult<()> {
    let names: Vec<String> = outputs.iter().map(|output| output.name.clone()).collect();
    check(&names, path)?;
    let bytes = match outputs {
        [output] if !is_archive(path) => array(output)?,
        _ => archive(outputs)?,
    };
    write_whole(path, &bytes)
}

fn is_archive(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("npz"))
}

/// Finds out before a run whether a file can hold what the model makes. Fails where [`write()`]
/// would for the outputs' number or names.
pub(super) fn check(outputs: &[String], path: &Path) -> TractResult<()> {
    if is_archive(path) {
        return check_names(outputs);
    }
    let (shown, count) = (path.display(), outputs.len());
    ensure!(count == 1, "{shown}: a .npy holds one output, the model has {count}");
    Ok(())
}

fn archive(outputs: &[NamedTensor]) -> TractResult<Vec<u8>> {
    let mut zip = ZipWriter::new(Cursor::new(vec![]));
    let options = SimpleFileOptions::default().large_file(true);
    for output in outputs {
        zip.start_file(format!("{}.npy", output.name), options)?;
        zip.write_all(&array(output)?)?;
    }
    Ok(zip.finish()?.into_inner())
}

/// Refuses names that an archive cannot hold, or that lead out of the folder where somebody unpacks
/// it. A `/` is in the names that exporters give.
fn check_names(outputs: &[String]) -> TractResult<()> {
    // 16 bits tell how long a member's name is, to which `.npy` belongs, and the writer does not
    // use the largest number.
    const LONGEST: usize = u16::MAX as usize - 1 - ".npy".len();
    let mut taken = HashSet::new();
    for name in outputs {
        let problem = match () {
            () if name.len() > LONGEST => {
                format!("is {} bytes long, more than {LONGEST}", name.len())
            }
            () if name.contains('\0') => "holds a NUL".into(),
            () if name.split(['/', '\\']).any(|part| part == "..") => "leads upwards".into(),
            () if !taken.insert(name) => "is that of two outputs".into(),
            () => continue,
        };
        let name = shortened_line(name);
        bail!("output `{name}`: its name {problem}, which a .npz cannot hold; a folder can");
    }
    Ok(())
}

fn array(output: &NamedTensor) -> TractResult<Vec<u8>> {
    let (descriptor, data) = at(format!("output `{}`", output.name), elements(output))?;
    let mut shape: String = output.tensor.shape().iter().map(|dim| format!("{dim}, ")).collect();
    shape.truncate(shape.trim_end().len());
    let mut header =
        format!("{{'descr': '{descriptor}', 'fortran_order': False, 'shape': ({shape}), }}");
    // With the magic, the version and the length before it, and a line feed behind, a multiple of
    // 64.
    let rest = (10 + header.len() + 1).next_multiple_of(64) - (10 + header.len() + 1);
    header.push_str(&" ".repeat(rest));
    header.push('\n');
    let length = u16::try_from(header.len())?.to_le_bytes();
    Ok([b"\x93NUMPY\x01\x00", length.as_slice(), header.as_bytes(), &data].concat())
}

/// NumPy's name of the element type, and the elements.
fn elements(output: &NamedTensor) -> TractResult<(String, Vec<u8>)> {
    if output.ty == ElementType::String {
        return texts(&output.tensor);
    }
    let carrier = output.ty.datum_type();
    let kind = match carrier {
        DatumType::Bool => 'b',
        _ if carrier.is_float() => 'f',
        _ if carrier.is_unsigned() => 'u',
        _ => 'i',
    };
    let order = if carrier.size_of() == 1 { '|' } else { '<' };
    let mut data = output.tensor.as_bytes().to_vec();
    if cfg!(target_endian = "big") {
        data.chunks_exact_mut(carrier.size_of()).for_each(<[u8]>::reverse);
    }
    Ok((format!("{order}{kind}{}", carrier.size_of()), data))
}

/// Strings in UTF-32, all as long as the longest.
fn texts(tensor: &Tensor) -> TractResult<(String, Vec<u8>)> {
    let texts = tensor.try_as_plain_ram()?.as_slice::<String>()?;
    let longest = texts.iter().map(|text| text.chars().count()).max().unwrap_or(0).max(1);
    let bytes = longest.checked_mul(4).and_then(|bytes| bytes.checked_mul(texts.len()));
    ensure!(bytes.is_some_and(|bytes| bytes <= 1 << 30), "its strings are too long for NumPy");
    let unit = |text: &String| {
        let filled = text.chars().map(u32::from).chain(std::iter::repeat(0)).take(longest);
        filled.flat_map(u32::to_le_bytes).collect::<Vec<u8>>()
    };
    Ok((format!("<U{longest}"), texts.iter().flat_map(unit).collect()))
}
