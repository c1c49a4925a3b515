use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use onnx_cast_graph::external_data;
use tract_onnx::data_resolver::ModelDataResolver;

use super::*;
use crate::tensor::late;
use crate::tensor::proto::{read, read_late};

/// What stands in a file, given how many rows of how many bytes.
fn stored(rows: usize, stride: usize) -> Vec<u8> {
    (0..rows * stride).map(|place| (place * 37 % 256) as u8).collect()
}

/// The element of a row of the file.
fn element(bytes: &[u8], (stride, bits): (usize, u32), row: usize, place: usize) -> Vec<u8> {
    let row = &bytes[row * stride..];
    match bits {
        4 => vec![row[place / 2] >> (place % 2 * 4) & 15],
        8 => vec![row[place]],
        _ => row[place * 4..][..4].to_vec(),
    }
}

#[test]
fn what_is_read_of_a_transpose_is_the_matrix() -> TractResult<()> {
    let folder = std::env::temp_dir().join(format!("onnx-cast-turned-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let types = [ElementType::Uint4, ElementType::Uint8, ElementType::Float];
    for (columns, stride, rows) in [
        (2, 1, 2),
        (6, 28, 4),
        (134, 600, 10),
        (64, 256, 66),
        (2, 8, 1),
        (134, 540, 7),
        (30, 120, 17),
        (290, 1200, 51),
    ] {
        let bytes = stored(rows, stride);
        std::fs::write(folder.join("w.data"), [&[1, 2, 3][..], &bytes].concat())?;
        let held = TensorProto {
            dims: vec![rows as i64, 1, stride as i64],
            data_type: ElementType::Uint8 as i32,
            data_location: Some(1),
            external_data: external_data("w.data", 3, bytes.len() as u64),
            ..TensorProto::default()
        };
        for ty in types {
            let Some(proto) = transposed(&held, "w", ty, [columns, rows]) else {
                assert!(columns * ty.bits() as usize / 8 > stride, "{ty}, {columns} columns");
                continue;
            };
            let wanted: Vec<u8> = (0..columns * rows)
                .flat_map(|at| element(&bytes, (stride, ty.bits()), at % rows, at / rows))
                .collect();
            let all = read(&proto, Some(&folder))?.1;
            assert_eq!((all.as_bytes(), all.shape()), (&*wanted, &[columns, rows][..]));
            let (_, late) = read_late(&proto, Some(&folder))?;
            assert!(late::is_late(&late));
            let width = rows * wanted.len() / (columns * rows);
            for row in [0, columns / 2, columns - 1, columns / 3] {
                let part: Tensor = late.slice(0, row, columns.min(row + 2))?;
                assert_eq!(part.as_bytes(), &wanted[row * width..][..part.as_bytes().len()]);
            }
        }
    }
    Ok(std::fs::remove_dir_all(folder)?)
}

/// Of rows that are read some at a time, in one part and in two, forth and back.
#[test]
fn a_large_file_is_turned_as_a_small_one_is() -> TractResult<()> {
    let folder = std::env::temp_dir().join(format!("onnx-cast-large-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    for (rows, stride) in [(6001, 700), (6000, 700), (6017, 700), (70_001, 240)] {
        let bytes = stored(rows, stride);
        assert!(bytes.len() > LARGE && rows > ROWS_AT_ONCE / stride);
        std::fs::write(folder.join("w.data"), &bytes)?;
        let held = TensorProto {
            dims: vec![rows as i64, stride as i64],
            data_type: ElementType::Uint8 as i32,
            data_location: Some(1),
            external_data: external_data("w.data", 0, bytes.len() as u64),
            ..TensorProto::default()
        };
        for ty in [ElementType::Uint4, ElementType::Uint8, ElementType::Float] {
            let columns = stride * 8 / ty.bits() as usize;
            let proto = transposed(&held, "w", ty, [columns, rows]).context("a tensor")?;
            let (_, late) = read_late(&proto, Some(&folder))?;
            let last = columns - 1;
            for column in [0, 1, 2, last / 2, last - 1, last, 3, last] {
                let part = late.slice(0, column, column + 1)?;
                let wanted =
                    (0..rows).flat_map(|row| element(&bytes, (stride, ty.bits()), row, column));
                assert!(
                    *part.as_bytes() == wanted.collect::<Vec<u8>>(),
                    "{ty}, column {column} of {rows} rows"
                );
            }
        }
    }
    Ok(std::fs::remove_dir_all(folder)?)
}

/// A file whose reads are counted, in bytes, and of which some fail.
struct CountedFile {
    bytes: Vec<u8>,
    read: AtomicUsize,
    fails: AtomicBool,
}

impl ModelDataResolver for CountedFile {
    fn read_bytes_from_path(
        &self,
        buf: &mut Vec<u8>,
        _: &Path,
        offset: usize,
        length: Option<usize>,
    ) -> TractResult<()> {
        ensure!(!self.fails.load(Ordering::Relaxed), "it is gone");
        let length = length.context("a length")?;
        self.read.fetch_add(length, Ordering::Relaxed);
        buf.extend_from_slice(self.bytes.get(offset..offset + length).context("bytes")?);
        Ok(())
    }
}

#[test]
fn a_large_file_is_held_where_it_would_be_read_again_and_again() -> TractResult<()> {
    for (rows, stride) in [(70_001, 240), (17, 300_000), (25, 300_000)] {
        let (read, fails) = (AtomicUsize::new(0), AtomicBool::new(false));
        let file = Arc::new(CountedFile { bytes: stored(rows, stride), read, fails });
        let resolver = Resolver::Given(file.clone());
        let place = ExternalPlace { resolver, path: PathBuf::new(), offset: 0 };
        let shape = [stride, rows];
        let place = TransposedPlace::new(place, ElementType::Uint8, (shape, stride))?;
        let (part, all) = (rows.div_ceil(8), rows * stride);
        let mut made = vec![0; rows];
        for column in 0..stride {
            place.read(column * rows, &mut made)?;
        }
        let once = file.read.swap(0, Ordering::Relaxed);
        assert!(once <= 3 * all, "{once} bytes of {all}");
        for first in (0..rows).step_by(part) {
            let made = &mut made[..part.min(rows - first)];
            for column in (0..stride).step_by(stride / 40) {
                let is_broken = first == 0 && column == 0;
                file.fails.store(is_broken, Ordering::Relaxed);
                let read = place.read(column * rows + first, made);
                assert_eq!(read.is_err(), is_broken);
                let rows = file.bytes[first * stride..].chunks(stride);
                let wanted = rows.map(|row| row[column]);
                assert!(is_broken || wanted.zip(&*made).all(|(wanted, made)| wanted == *made));
            }
        }
        let again = file.read.load(Ordering::Relaxed);
        assert!(again <= 5 * all, "{again} bytes of {all}");
    }
    Ok(())
}

#[test]
fn what_is_no_transpose_is_refused() -> TractResult<()> {
    let held = TensorProto {
        dims: vec![3, 4],
        data_type: ElementType::Uint8 as i32,
        data_location: Some(1),
        external_data: external_data("w.data", 0, 12),
        ..TensorProto::default()
    };
    let of = |held: &TensorProto, ty, sizes| transposed(held, "w", ty, sizes);
    let sound = of(&held, ElementType::Uint4, [6, 3]).context("a tensor")?;
    for sizes in [[10, 3], [5, 3], [8, 5], [8, 0]] {
        assert!(of(&held, ElementType::Uint4, sizes).is_none());
    }
    assert!(of(&held, ElementType::Uint2, [6, 3]).is_none());
    let inside = TensorProto { data_location: None, ..held.clone() };
    assert!(of(&inside, ElementType::Uint4, [6, 3]).is_none());
    let folder = std::env::temp_dir().join(format!("onnx-cast-no-turn-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let error = |proto: &TensorProto| read(proto, Some(&folder)).err().map(|e| e.to_string());
    std::fs::write(folder.join("w.data"), [0; 11])?;
    assert!(error(&sound).is_some_and(|error| error.contains("holds 0 bytes from offset 11")));
    std::fs::write(folder.join("w.data"), [0; 12])?;
    assert_eq!(error(&sound), None);
    let half = TensorProto { data_type: ElementType::Float16 as i32, ..sound.clone() };
    let half = TensorProto { dims: vec![2, 3], ..half };
    assert!(error(&half).is_some_and(|error| error.contains("rows of other bytes")));
    let wide = TensorProto { dims: vec![10, 3], ..sound.clone() };
    assert!(error(&wide).is_some_and(|error| error.contains("rows of other bytes")));
    for dims in [vec![18], vec![6, i64::MAX / 16]] {
        assert!(error(&TensorProto { dims, ..sound.clone() }).is_some());
    }
    Ok(std::fs::remove_dir_all(folder)?)
}
