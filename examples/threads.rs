//! A model that is loaded once and run from several threads, and a large cast that is divided among
//! the threads of the executor that the program gives tract.
//!
//! ```sh
//! cargo run --release --features multithread --example threads
//! ```

use std::thread;
use std::time::Instant;

use tract_linalg::multithread::{Executor, multithread_tract_scope};
use tract_onnx::prelude::*;
use tract_onnx_cast::{Conversion, ElementType, Rules, onnx};

fn main() -> TractResult<()> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/models/whole/int64_timestamps/model.onnx");
    let plan = onnx().model_for_path(path)?.into_optimized()?.into_runnable()?;

    // A plan is behind an `Arc`: threads share it, and each run has a state of its own.
    let workers = (0..4).map(|worker| {
        let plan = plan.clone();
        thread::spawn(move || plan.run(tvec!(tensor1(&[worker as f64 * 1e10]).into_tvalue())))
    });
    for worker in workers.collect::<Vec<_>>() {
        println!("{:?}", worker.join().expect("a thread that does not panic")?[0]);
    }

    // One cast over all cores, because this program says so; by default tract uses one thread, and
    // so do casts.
    let numbers = Tensor::zero::<f32>(&[16 << 20])?;
    let to_float8 =
        Conversion::new(ElementType::Float, ElementType::Float8E4M3FN, Rules::default());
    let time = |name: &str| -> TractResult<Tensor> {
        let start = Instant::now();
        let codes = to_float8.run(&numbers)?;
        println!("{name}: {:?}", start.elapsed());
        Ok(codes)
    };
    let alone = time("one thread")?;
    let together = multithread_tract_scope(Executor::multithread(2), || time("two threads"))?;
    assert_eq!(alone, together);
    Ok(())
}
