//! Where outputs of strings live.
//!
//! A tensor drops its strings one by one, and a new one allocates them one by one: together that costs several times what
//! spelling numbers does. So a large output stays known here when it is handed out. Once nobody else has it, the next
//! output of as many strings is written over it and keeps what memory its texts had.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tract_onnx::prelude::{DatumType, Tensor, TractResult};

use super::pool::is_pool_enabled;

/// Fewer strings than this are as fast to allocate as to look for.
const KEPT_FROM: usize = 256;

/// Outputs whose strings have more memory than this on average are not kept, so that none wastes more.
const BYTES_PER_STRING: usize = 40;

/// The most that is kept, in bytes, and in tensors.
const KEPT_BYTES: usize = 128 << 20;
const KEPT_TENSORS: usize = 16;

static KEPT: Mutex<VecDeque<Kept>> = Mutex::new(VecDeque::new());

struct Kept {
    tensor: Arc<Tensor>,
    bytes: usize,
}

/// Does something to what is kept, which is sound whatever another thread was doing to it when it panicked.
fn kept<R>(act: impl FnOnce(&mut VecDeque<Kept>) -> R) -> R {
    act(&mut KEPT.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Gives back what is kept.
pub(super) fn forget() {
    let all = kept(std::mem::take);
    drop(all);
}

/// A new tensor of strings, empty ones until `fill` writes them.
#[inline]
pub(crate) fn fill_strings(
    shape: &[usize],
    fill: impl FnOnce(&mut [String]),
) -> TractResult<Tensor> {
    #[expect(unsafe_code, reason = "the only constructor of strings that does not copy them")]
    // SAFETY: of strings, tract leaves none uninitialised: it makes them empty.
    let mut output = unsafe { Tensor::uninitialized_dt(DatumType::String, shape)? };
    fill(output.try_as_plain_ram_mut()?.as_slice_mut()?);
    Ok(output)
}

/// A tensor of strings, which `fill` writes over whatever they are, every one. A large one is shared with what is kept
/// here, and so copied by whoever wants it as its own.
#[inline]
pub(crate) fn fill_shared_strings(
    shape: &[usize],
    fill: impl FnOnce(&mut [String]),
) -> TractResult<Arc<Tensor>> {
    let elements = shape.iter().product();
    if elements < KEPT_FROM || !is_pool_enabled() {
        return fill_strings(shape, fill).map(Arc::new);
    }
    fill_kept(shape, elements, fill)
}

/// Apart from its caller, so that few strings do not pay for it.
#[inline(never)]
fn fill_kept(
    shape: &[usize],
    elements: usize,
    fill: impl FnOnce(&mut [String]),
) -> TractResult<Arc<Tensor>> {
    let mut shared = match take(elements) {
        Some(tensor) => tensor,
        None => Arc::new(fill_strings(shape, |_| ())?),
    };
    let Some(output) = Arc::get_mut(&mut shared) else {
        return fill_strings(shape, fill).map(Arc::new);
    };
    output.set_shape(shape)?;
    let mut view = output.try_as_plain_ram_mut()?;
    let texts: &mut [String] = view.as_slice_mut()?;
    fill(texts);
    let capacity: usize = texts.iter().map(String::capacity).sum();
    if capacity <= elements * BYTES_PER_STRING {
        keep(Kept { tensor: shared.clone(), bytes: capacity + elements * size_of::<String>() });
    }
    Ok(shared)
}

/// The newest tensor of so many strings that nobody else has.
fn take(elements: usize) -> Option<Arc<Tensor>> {
    kept(|kept| {
        let is_free =
            |kept: &Kept| kept.tensor.len() == elements && Arc::strong_count(&kept.tensor) == 1;
        let newest = kept.iter().rposition(is_free)?;
        Some(kept.remove(newest)?.tensor)
    })
}

fn keep(tensor: Kept) {
    let mut too_old = vec![];
    kept(|kept| {
        kept.push_back(tensor);
        let bytes = |kept: &VecDeque<Kept>| kept.iter().map(|kept| kept.bytes).sum::<usize>();
        while kept.len() > KEPT_TENSORS || bytes(kept) > KEPT_BYTES {
            too_old.extend(kept.pop_front());
        }
    });
    // Freeing many strings takes long enough that nobody else should wait for it.
    drop(too_old);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelled(shape: &[usize], text: &str) -> Arc<Tensor> {
        let write = |texts: &mut [String]| {
            for place in texts {
                place.clear();
                place.push_str(text);
            }
        };
        fill_shared_strings(shape, write).expect("a tensor")
    }

    fn address(tensor: &Tensor) -> usize {
        tensor.as_bytes().as_ptr() as usize
    }

    fn all_are(tensor: &Tensor, text: &str) -> bool {
        let view = tensor.try_as_plain_ram().expect("plain");
        view.as_slice::<String>().expect("strings").iter().all(|place| place == text)
    }

    #[test]
    fn an_output_that_is_dropped_serves_the_next_of_as_many_strings() {
        // Numbers of strings that no other test has, which shares what is kept.
        let (first, second) = (spelled(&[7, 101], "a"), spelled(&[707], "bb"));
        let (one, other) = (address(&first), address(&second));
        assert_ne!(one, other);
        drop(first);
        let third = spelled(&[101, 7], "c");
        assert_eq!((address(&third), third.shape()), (one, &[101, 7][..]));
        assert!(all_are(&third, "c") && all_are(&second, "bb"));
    }

    #[test]
    fn an_output_of_long_strings_is_not_kept() {
        let long = "0".repeat(BYTES_PER_STRING + 1);
        let tensor = spelled(&[709], &long);
        assert_eq!(Arc::strong_count(&tensor), 1);
    }

    #[test]
    fn an_output_that_was_taken_away_stays_as_it_was() {
        let shared = spelled(&[719], "mine");
        let owned = Arc::unwrap_or_clone(shared);
        let next = spelled(&[719], "next");
        assert!(all_are(&owned, "mine") && all_are(&next, "next"));
    }
}
