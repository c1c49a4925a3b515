//! Links the targets with the `libfuzzer.a` in the folder `LIBFUZZER`.

fn main() {
    println!("cargo::rerun-if-env-changed=LIBFUZZER");
    if let Ok(folder) = std::env::var("LIBFUZZER") {
        for argument in [format!("-L{folder}"), "-lfuzzer".into(), "-lstdc++".into()] {
            println!("cargo::rustc-link-arg-bins={argument}");
        }
    }
}
