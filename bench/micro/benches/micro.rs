//! Times every case: `cargo bench -p lockstead-micro`, with a part of a name to choose.

use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use lockstead_micro::{OPERATIONS, cases};

fn micro(criterion: &mut Criterion) {
    for case in cases() {
        let mut group = criterion.benchmark_group(&case.name);
        group.throughput(Throughput::Elements(OPERATIONS as u64));
        // Made on first use: a case that was not chosen takes neither time nor memory.
        let mut made = None;
        group.bench_function("1000", |bencher| {
            let work = made.get_or_insert_with(|| case.make());
            bencher.iter_custom(|iterations| {
                let mut spent = Duration::ZERO;
                for _ in 0..iterations {
                    work.prepare();
                    let begun = Instant::now();
                    let right = work.run();
                    spent += begun.elapsed();
                    assert_eq!(right, OPERATIONS, "{}: operations that went as they should", case.name);
                }
                spent
            });
        });
        group.finish();
    }
}

fn quick() -> Criterion {
    Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
}

criterion_group! { name = benches; config = quick(); targets = micro }
criterion_main!(benches);
