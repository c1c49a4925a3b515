//! A comparison takes a time that grows with the nodes, not with their square.

use std::process::{Command, Stdio};
use std::time::Duration;

use assert_cmd::cargo::cargo_bin;
use tract_onnx::pb::ModelProto;
use tract_onnx_cast::ElementType::{self, Float, Float16};

use crate::common::proto::{cast, graph, model, node, tensor, value};
use crate::program::*;

/// Growth in time for a fourfold model: 5 is seen; a look at every pair makes it 16.
const MOST: f64 = 8.0;
/// How often it is tried: what else the machine does makes one try longer than another.
const TRIES: usize = 6;
const SIZES: [usize; 2] = [2_000, 8_000];

/// What is wrong with a chain.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Wrong {
    Nothing,
    /// The last of the nodes that multiply does it by another number than the others.
    LastNode,
    /// All multiply by another number than the reference's, and what they make has other names.
    EveryProduct,
}

/// Numbers that are multiplied and squeezed in turn, in a type.
fn chain(nodes: usize, ty: ElementType, wrong: Wrong) -> ModelProto {
    let letter = if wrong == Wrong::EveryProduct { 'w' } else { 'v' };
    let name = |place: usize| format!("{letter}{place}");
    let link = |place: usize| {
        let (from, to) = (name(place), name(place + 1));
        let is_wrong = wrong == Wrong::LastNode && place + 2 == nodes;
        let factor = if is_wrong { "wrong" } else { "c" };
        match place % 2 {
            0 => node("Mul", &[&from, factor], &[&to], vec![]),
            _ => node("Tanh", &[&from], &[&to], vec![]),
        }
    };
    let down = cast("x", ty, &name(0));
    let up = cast(&name(nodes), Float, "y");
    let all: Vec<_> = [down].into_iter().chain((0..nodes).map(link)).chain([up]).collect();
    let mut graph = graph(&[value("x", Float, &[4])], &all, &[value("y", Float, &[4])]);
    let factor = if wrong == Wrong::EveryProduct { 1.75 } else { 1.5 };
    graph.initializer.push(tensor("c", ty, &[factor]));
    graph.initializer.extend((wrong == Wrong::LastNode).then(|| tensor("wrong", ty, &[2.5])));
    model(17, graph)
}

/// How long the processors are at a comparison that ends like this.
fn busy(arguments: &[&str], status: i32) -> Duration {
    let output = Command::new("sh")
        .args(["-c", "\"$0\" \"$@\" >&2; echo \"status $?\"; times"])
        .arg(cargo_bin!("onnx-cast"))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("a shell");
    let told = stdout(&output);
    let lines: Vec<&str> = told.lines().collect();
    // The shell's own times, and those of what it has started: of the user, and of the system.
    let [ended, _, started] = lines[..] else { panic!("{told}: {}", stderr(&output)) };
    assert_eq!(ended, format!("status {status}"), "{}", stderr(&output));
    let user = started.split_whitespace().next().and_then(|time| time.strip_suffix('s'));
    let (minutes, seconds) = user.and_then(|time| time.split_once('m')).expect("minutes");
    let minutes: f64 = minutes.parse().expect("a number");
    let seconds: f64 = seconds.replace(',', ".").parse().expect("a number");
    Duration::from_secs_f64(minutes * 60.0 + seconds)
}

fn grows_with_the_nodes(wrong: Wrong, status: i32) {
    let folder = Folder::new();
    let pairs = SIZES.map(|nodes| {
        let of = |name: &str, ty, wrong| {
            folder.message(&format!("{name}{nodes}.onnx"), &chain(nodes, ty, wrong))
        };
        [of("a", Float, Wrong::Nothing), of("b", Float16, wrong)]
    });
    let mut tries = vec![];
    for _ in 0..TRIES {
        let times = pairs
            .each_ref()
            .map(|[a, b]| busy(&["compare", a, b, "--sets", "2", "--samples", "2"], status));
        let growth = times[1].as_secs_f64() / times[0].as_secs_f64();
        println!("{wrong:?} is wrong: {times:?} for {SIZES:?}");
        if growth <= MOST {
            return;
        }
        tries.push(times);
    }
    panic!("{wrong:?} is wrong: {tries:?} for {SIZES:?}");
}

#[test]
fn a_comparison_takes_time_in_proportion_to_the_nodes() {
    grows_with_the_nodes(Wrong::Nothing, 0);
}

#[test]
fn so_does_whom_to_blame() {
    grows_with_the_nodes(Wrong::LastNode, 1);
}

#[test]
fn so_does_blaming_every_product() {
    grows_with_the_nodes(Wrong::EveryProduct, 1);
}
