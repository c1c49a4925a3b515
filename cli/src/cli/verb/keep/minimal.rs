//! Delta debugging: the smallest part of a list with which something still holds.

use std::collections::HashSet;

/// A part of a list with which something holds.
#[derive(Debug, PartialEq)]
pub(crate) struct Minimal {
    pub(crate) kept: Vec<usize>,
    /// Those of them without which, and with all the others, it has been seen not to hold.
    pub(crate) needed: HashSet<usize>,
}

/// Leaves items out, many at once first and then one by one, as long as `holds` of the rest. It is
/// known to hold of all items, which are in the order in which they are to be tried; `holds` says
/// nothing where it must not be asked any more. Its errors are those of `holds`.
pub(crate) fn minimal<E>(
    items: Vec<usize>,
    mut holds: impl FnMut(&[usize]) -> Result<Option<bool>, E>,
) -> Result<Minimal, E> {
    let mut found = Minimal { kept: items, needed: HashSet::new() };
    let mut size = found.kept.len().div_ceil(2).max(1);
    loop {
        let mut place = 0;
        while let Some(first) = found.kept.get(place).copied() {
            if found.needed.contains(&first) {
                place += 1;
                continue;
            }
            let end = (place + size).min(found.kept.len());
            let parts = [found.kept.get(..place), found.kept.get(end..)];
            let rest: Vec<usize> = parts.into_iter().flatten().flatten().copied().collect();
            match holds(&rest)? {
                None => return Ok(found),
                // What was needed beside the others need not be needed beside fewer.
                Some(true) => found = Minimal { kept: rest, needed: HashSet::new() },
                Some(false) => {
                    if size == 1 {
                        found.needed.insert(first);
                    }
                    place = end;
                }
            }
        }
        if size == 1 && found.needed.len() == found.kept.len() {
            return Ok(found);
        }
        size = size.div_ceil(2);
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn found(items: usize, runs: usize, holds: impl Fn(&[usize]) -> bool) -> (Minimal, usize) {
        let mut asked = 0;
        let ask = |rest: &[usize]| {
            asked += 1;
            Ok::<_, Infallible>((asked <= runs).then(|| holds(rest)))
        };
        let Ok(minimal) = minimal((0..items).collect(), ask);
        (minimal, asked)
    }

    #[test]
    fn a_few_of_many_are_found() {
        let needs = |these: &'static [usize]| {
            move |rest: &[usize]| these.iter().all(|item| rest.contains(item))
        };
        for these in [&[][..], &[7], &[0, 99], &[3, 4, 50]] {
            let (minimal, asked) = found(100, 1000, needs(these));
            assert_eq!(minimal.kept, these);
            assert_eq!(minimal.needed.len(), these.len());
            // By halves: twice for each halving of each item's part of the list, and once more for
            // each item.
            let most = 4 + these.len() * (2 * 7 + 1);
            assert!(asked <= most, "{these:?}: {asked}");
        }
    }

    #[test]
    fn what_is_found_needs_each_of_its_items() {
        // Any two that follow one another will do.
        let (minimal, _) = found(40, 1000, |rest| rest.windows(2).any(|two| two[1] == two[0] + 1));
        assert_eq!(minimal.kept.len(), 2);
        assert_eq!(minimal.needed.len(), 2);
    }

    #[test]
    fn what_has_been_found_is_kept_where_nobody_may_ask_any_more() {
        let (minimal, _) = found(8, 3, |rest| rest.contains(&0));
        assert!(minimal.kept.contains(&0) && minimal.kept.len() < 8, "{minimal:?}");
        assert!(minimal.needed.is_empty());
    }
}
