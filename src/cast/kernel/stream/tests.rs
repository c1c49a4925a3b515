use super::*;
use crate::cast::element_type::ElementType::{Double, Float, Float8E4M3FN, Int64};
use crate::cast::kernel::places::TargetBytes;
use crate::cast::kernel::select::select;
use crate::cast::rules::Rules;

#[derive(Clone, Copy, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
struct CacheLine([u8; 64]);

#[test]
fn a_streamed_output_is_the_same() {
    let numbers: Vec<f32> = (0..10_007).map(|i| i as f32 * 0.37 - 1000.0).collect();
    let bytes: &[u8] = bytemuck::cast_slice(&numbers);
    for to in [Float8E4M3FN, Float, Int64, Double] {
        let kernel = select(Float, to, Rules::default());
        let written = to.carrier_bytes().expect("a number");
        for level in Level::available() {
            let output = |elements| {
                // Streaming needs a buffer that begins at a cache line.
                let mut lines = vec![CacheLine([0; 64]); (numbers.len() * written).div_ceil(64)];
                let dst = &mut bytemuck::cast_slice_mut(&mut lines)[..numbers.len() * written];
                let dst = TargetBytes::over(dst).into_bytes();
                run(kernel.as_ref(), level, (bytes, 4), (dst, written), elements);
                lines
            };
            assert!(output(STREAMED_FROM) == output(0), "{to} at {level:?}");
        }
    }
}
