use std::thread::current;

use tract_linalg::multithread::{Executor, multithread_tract_scope};

use super::*;

#[test]
fn the_executor_does_the_work_each_part_once() {
    let elements = DIVIDED_FROM + GRAIN + 3;
    let mut places = vec![0u32; 2 * elements];
    let executor = Executor::multithread_with_name(2, "of the executor");
    multithread_tract_scope(executor, || {
        in_parts(&mut places, 2, elements, |range, part| {
            assert_eq!(part.len(), 2 * range.len());
            let is_rest = range.start == elements / GRAIN * GRAIN;
            let name = current().name().unwrap_or_default().to_string();
            assert!(is_rest || name.starts_with("of the executor"), "{name}");
            for (place, number) in part.iter_mut().zip(2 * range.start as u32..) {
                *place += number;
            }
        });
    });
    assert!(places.into_iter().eq(0..2 * elements as u32));
}
