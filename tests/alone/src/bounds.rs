//! Nothing beside a conversion's elements is read or written, and all of its target is: what a
//! sanitizer, Valgrind or Miri sees of memory that is exactly as long as its elements and begins as
//! nothing at all.

#![expect(unsafe_code, reason = "memory that is not initialised")]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::{env, iter, slice};

use crate::cast::element_type::ElementType;
use crate::cast::kernel::level::Level;
use crate::cast::kernel::places::TargetBytes;
use crate::cast::kernel::select::select;
use crate::cast::kernel::stream;
use crate::cast::rules::Rules;
use crate::cast::scalar::{convert, write_carrier};
use crate::cast::text::parse::Parse;
use crate::numbers::{numeric, sample};

/// Around every vector's length, and tiles'.
const LENGTHS: [usize; 14] = [1, 2, 3, 7, 8, 9, 15, 17, 31, 33, 63, 65, 129, 519];
/// A cast of so many elements streams its output.
const MANY: usize = 1 << 30;
/// Where elements of every width may begin.
const WORD: usize = 8;
/// Where an output begins that is streamed.
const LINE: usize = 64;

/// Bytes that nothing lies beside, not initialised at first.
struct Memory {
    start: NonNull<u8>,
    layout: Layout,
}

impl Memory {
    /// At least one byte.
    fn new(bytes: usize, align: usize) -> Memory {
        assert!(bytes > 0);
        let layout = Layout::from_size_align(bytes, align).expect("a small buffer");
        // SAFETY: it is not empty.
        let start = NonNull::new(unsafe { alloc(layout) });
        Memory { start: start.unwrap_or_else(|| handle_alloc_error(layout)), layout }
    }

    fn of(ty: ElementType, codes: &[u64]) -> Memory {
        let width = ty.carrier_bytes().expect("a number");
        let mut memory = Memory::new(codes.len() * width, WORD);
        for (place, code) in memory.places().chunks_mut(width).zip(codes) {
            let mut bytes = [0; WORD];
            write_carrier(ty, *code, &mut bytes[..width]);
            place.iter_mut().zip(bytes).for_each(|(place, byte)| {
                place.write(byte);
            });
        }
        memory
    }

    fn places(&mut self) -> &mut [MaybeUninit<u8>] {
        // SAFETY: so many bytes were allocated, which may be anything, and they are borrowed as
        // this is.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr().cast(), self.layout.size()) }
    }

    /// All of it must have been written, which is what the tools that run this find out.
    fn written(&self) -> &[u8] {
        // SAFETY: as above; a kernel writes every byte of its target.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.layout.size()) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: `new` allocated it with this layout.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

#[test]
fn conversions_read_and_write_their_elements() {
    // MemorySanitizer does not see streaming stores, which are assembler in the standard library.
    let streams = env::var_os("WITHOUT_STREAMS").is_none().then_some((LINE, Some(MANY)));
    let ways: Vec<_> = iter::once((WORD, None)).chain(streams).collect();
    for from in numeric() {
        let codes = sample(from, *LENGTHS.iter().max().expect("some"));
        let read = from.carrier_bytes().expect("a number");
        for to in numeric() {
            let written = to.carrier_bytes().expect("a number");
            let kernel = select(from, to, Rules::default());
            let truth = |code: &u64| convert(from, to, Rules::default(), *code).expect("numbers");
            let truth: Vec<u64> = codes.iter().map(truth).collect();
            for length in LENGTHS {
                let (input, wanted) =
                    (Memory::of(from, &codes[..length]), Memory::of(to, &truth[..length]));
                for level in Level::available() {
                    for (align, elements) in &ways {
                        let mut output = Memory::new(length * written, *align);
                        let (src, dst) = ((input.written(), read), (output.places(), written));
                        let elements = elements.unwrap_or(length);
                        stream::run(kernel.as_ref(), level, src, dst, elements);
                        let is_right = output.written() == wanted.written();
                        assert!(is_right, "{length} of {from} to {to}, {level:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn numbers_that_are_read_from_strings_fill_their_target() {
    for to in numeric() {
        let texts: Vec<String> = (0..600).map(|number| (number % 2).to_string()).collect();
        let mut output = Memory::new(texts.len() * to.carrier_bytes().expect("a number"), WORD);
        let parse = Parse::new(to, Rules::default());
        let target = TargetBytes::new(output.places());
        parse.run(Level::best(), &texts, target).expect("numbers");
        let one = convert(ElementType::Bool, to, Rules::default(), 1).expect("numbers");
        let zero = convert(ElementType::Bool, to, Rules::default(), 0).expect("numbers");
        let codes: Vec<u64> = (0..600).map(|number| [zero, one][number % 2]).collect();
        assert_eq!(output.written(), Memory::of(to, &codes).written(), "{to}");
    }
}
