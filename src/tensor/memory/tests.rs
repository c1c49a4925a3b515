use super::*;

fn bytes(memory: &Memory, length: usize) -> Tensor {
    #[expect(unsafe_code, reason = "written right here")]
    // SAFETY: bytes, which are written before anybody sees them.
    let mut tensor = unsafe { memory.unwritten(DatumType::U8, &[length]) }.expect("a tensor");
    tensor.as_bytes_mut().fill(1);
    tensor
}

fn address(tensor: &Tensor) -> usize {
    tensor.as_bytes().as_ptr() as usize
}

fn spelled(memory: &Memory, shape: &[usize], text: &str) -> Arc<Tensor> {
    let write = |texts: &mut [String]| {
        for place in texts {
            place.clear();
            place.push_str(text);
        }
    };
    memory.strings(shape, write).expect("a tensor")
}

fn all_are(tensor: &Tensor, text: &str) -> bool {
    let view = tensor.try_as_plain_ram().expect("plain");
    view.as_slice::<String>().expect("strings").iter().all(|place| place == text)
}

#[test]
fn a_large_output_is_made_of_the_last_one_of_its_size() {
    let memory = Memory::default();
    let make = || bytes(&memory, KEPT_FROM + 12_345);
    let (first, second) = (make(), make());
    let (one, other) = (address(&first), address(&second));
    assert_ne!(one, other);
    drop(first);
    assert_eq!(address(&make()), one);
    drop(second);
    let third = make();
    assert_eq!(address(&third), other);
}

#[test]
fn what_every_cast_has_passed_by_is_given_back() {
    let memory = Memory::default();
    let casts: Vec<Memory> = (0..3).map(|_| memory.clone()).collect();
    drop(memory);
    let held = |casts: &[Memory]| -> usize {
        kept(&casts[0].0).buffers.iter().map(|(_, buffer)| buffer.blob.len()).sum()
    };
    for cast in &casts {
        drop(bytes(cast, 2 * KEPT_FROM));
    }
    assert_eq!(held(&casts), 2 * KEPT_FROM);
    for run in 1..4 {
        for cast in &casts {
            drop(bytes(cast, KEPT_FROM));
        }
        let expected = if run < 2 { 3 * KEPT_FROM } else { KEPT_FROM };
        assert_eq!(held(&casts), expected, "after {run} smaller runs");
    }
}

#[test]
fn what_is_kept_goes_with_the_last_cast() {
    let memory = Memory::default();
    let (output, strings) = (bytes(&memory, KEPT_FROM), spelled(&memory, &[701], "a"));
    drop(bytes(&memory, KEPT_FROM));
    let home = Arc::downgrade(&memory.0);
    drop(memory);
    assert!(home.upgrade().is_none() && Arc::strong_count(&strings) == 1);
    // What is still in use is not affected.
    assert!(output.as_bytes().iter().all(|byte| *byte == 1) && all_are(&strings, "a"));
}

#[test]
fn an_output_that_is_dropped_serves_the_next_of_as_many_strings() {
    let memory = Memory::default();
    // As in a plan of several casts.
    let _others = [memory.clone(), memory.clone()];
    let (first, second) = (spelled(&memory, &[7, 101], "a"), spelled(&memory, &[707], "bb"));
    let (one, other) = (address(&first), address(&second));
    assert_ne!(one, other);
    drop(first);
    let third = spelled(&memory, &[101, 7], "c");
    assert_eq!((address(&third), third.shape()), (one, &[101, 7][..]));
    assert!(all_are(&third, "c") && all_are(&second, "bb"));
}

#[test]
fn an_output_of_long_strings_is_not_kept() {
    let long = "0".repeat(BYTES_PER_STRING + 1);
    let tensor = spelled(&Memory::default(), &[709], &long);
    assert_eq!(Arc::strong_count(&tensor), 1);
}

#[test]
fn an_output_that_was_taken_away_stays_as_it_was() {
    let memory = Memory::default();
    let shared = spelled(&memory, &[719], "mine");
    let owned = Arc::unwrap_or_clone(shared);
    let next = spelled(&memory, &[719], "next");
    assert!(all_are(&owned, "mine") && all_are(&next, "next"));
}

/// What [`new_strings`] leans on, though tract's documentation does not promise it: an
/// uninitialised tensor of strings has strings in it, whatever was in the memory before.
#[test]
fn strings_that_tract_leaves_uninitialised_are_empty() {
    for shape in [&[][..], &[0], &[1], &[3, 5], &[STRINGS_KEPT_FROM], &[7, 1001]] {
        let count: usize = shape.iter().product();
        // The allocator gives memory of one size out again.
        let dirt = vec![0xa5_u8; count * size_of::<String>()];
        drop(std::hint::black_box(dirt));
        let mut found = vec![];
        let look = |texts: &mut [String]| {
            found.extend(texts.iter().map(|text| (text.len(), text.capacity())));
        };
        drop(new_strings(shape, look).expect("a tensor"));
        assert_eq!(found, vec![(0, 0); count], "{shape:?}");
    }
}

/// What nobody has written to may not be looked at.
#[test]
fn only_memory_that_was_written_is_handed_out_as_written() {
    let memory = Memory::of_weights();
    let shape = [KEPT_FROM + 12_345];
    let kept = bytes(&memory, shape[0]);
    let unwritten = address(&kept);
    drop(kept);
    let mut first = memory.written(DatumType::U8, &shape).expect("numbers");
    assert!(address(&first) != unwritten && first.as_bytes().iter().all(|byte| *byte == 0));
    first.as_bytes_mut().fill(7);
    let one = address(&first);
    drop(first);
    let again = memory.written(DatumType::U8, &shape).expect("numbers");
    assert_eq!((address(&again), again.as_bytes()[0]), (one, 7));
    assert!(memory.written(DatumType::Bool, &shape).is_err());
}
