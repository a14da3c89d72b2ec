//! Many spinning guests hold up neither a short call nor a cancel. The figures are printed; what is asserted is
//! generous, because the machine may be busy with other things.

use super::*;

const GENEROUS: Duration = Duration::from_secs(10);

fn percentile(mut times: Vec<Duration>, percent: usize) -> Duration {
    times.sort_unstable();
    times[(times.len() * percent / 100).min(times.len() - 1)]
}

#[tokio::test(flavor = "multi_thread")]
async fn short_calls_and_cancels_among_spinning_guests() {
    const SPINNERS: usize = 200;
    let stage = Arc::new(Stage::new("probe").await);
    let (alone, calls) = echoes(&stage, 200).await;
    let spinners: Vec<_> = (0..SPINNERS)
        .map(|_| {
            let (call, stage) = (stage.make(Export::Send, "spin"), stage.clone());
            (call.cancel.clone(), tokio::spawn(async move { stage.run(call).await }))
        })
        .collect();
    until("all spinners", || stage.runtime.active_calls() == SPINNERS).await;
    let (burst, _) = echoes(&stage, 20).await;
    // All but those that run just now.
    until("all to be known as long", || stage.runtime.guests().load().long >= SPINNERS - 2).await;
    let (among, _) = echoes(&stage, 100).await;
    let mut stopped = Vec::new();
    for (cancel, running) in spinners {
        cancel.cancel(CancelCause::Aborted);
        stage.runtime.guests().nudge();
        let end = tokio::time::timeout(GENEROUS, running).await.expect("a guest did not stop").unwrap();
        assert_eq!(end.result, Err(CallError::Cancelled(CancelCause::Aborted)));
        stopped.push(end.report.stopped_after.unwrap());
    }
    for (what, times) in [
        ("echo alone, instance and call", &calls),
        ("echo alone, with the way there and back", &alone),
        ("echo while 200 guests begin to spin", &burst),
        ("echo among 200 spinning guests", &among),
        ("cancel to guest gone", &stopped),
    ] {
        let (p50, p99) = (percentile(times.clone(), 50), percentile(times.clone(), 99));
        let (min, max) = (times.iter().min().unwrap(), times.iter().max().unwrap());
        println!("{what}: min {min:?}, p50 {p50:?}, p99 {p99:?}, max {max:?}");
        assert!(p99 < GENEROUS, "{what}");
    }
}

/// How long echoes took, seen from here and from the guest thread.
async fn echoes(stage: &Stage, count: usize) -> (Vec<Duration>, Vec<Duration>) {
    let (mut outside, mut inside) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let began = Instant::now();
        let end = stage.send("echo quick").await;
        outside.push(began.elapsed());
        inside.push(end.report.wall);
        assert_eq!(end.result.unwrap().text, "quick");
    }
    (outside, inside)
}

#[tokio::test(flavor = "multi_thread")]
async fn long_calls_go_on_under_a_load_of_short_ones() {
    let stage = Arc::new(Stage::new("probe").await);
    let hog = Stage {
        runtime: stage.runtime.clone(),
        prepared: stage.prepared.clone(),
        limits: Limits { cpu_time: Duration::from_millis(200), ..Limits::default() },
        session: Arc::default(),
        events: Arc::default(),
        lines: Arc::default(),
    };
    let load: Vec<_> = (0..16)
        .map(|_| {
            let stage = stage.clone();
            tokio::spawn(async move {
                loop {
                    stage.run(stage.make(Export::Send, "echo x")).await.result.unwrap();
                }
            })
        })
        .collect();
    let began = Instant::now();
    let end = tokio::time::timeout(Duration::from_secs(60), hog.send("spin")).await.expect("it starved");
    println!("200 ms of CPU under a load of short calls: {:?}", began.elapsed());
    assert!(matches!(end.result, Err(CallError::Limit(_))));
    for task in load {
        task.abort();
    }
}
