//! `avernest demo`: a real provider, real bots and a simulated BCS, shown on the terminal step by step.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::sim::{Bcs, BcsOptions, Outcome, SseRun};

/// How long the provider may take to be ready: a first start compiles the bots.
const READY: Duration = Duration::from_secs(120);
/// How long a reload may take to be seen.
const RELOAD: Duration = Duration::from_secs(30);
const PROVIDER: &str = "demo-provider";

/// Runs the show; then, unless `once`, the conversation is the user's.
pub(super) fn demo(bots: &Path, once: bool) -> Result<()> {
    for bot in ["echo", "probe"] {
        let file = bots.join(format!("{bot}.wasm"));
        ensure!(file.is_file(), "{} is missing: run `cargo xtask demo`, or `cargo xtask bots` first", file.display());
    }
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("The threads cannot be started")?;
    runtime.block_on(async {
        let mut stage = Stage::set(bots).await?;
        let shown = show(&stage).await;
        if shown.is_ok() && !once {
            chat(&stage).await?;
        }
        let ended = stage.end().await;
        shown.and(ended)
    })
}

/// Everything that the show needs, in a folder that is gone afterwards.
struct Stage {
    bcs: Bcs,
    dir: tempfile::TempDir,
    bots: PathBuf,
    provider: Child,
}

impl Stage {
    async fn set(bots: &Path) -> Result<Self> {
        let dir = tempfile::tempdir().context("A temporary folder cannot be made")?;
        let plugins = dir.path().join("plugins");
        std::fs::create_dir(&plugins)?;
        for bot in ["echo", "probe"] {
            std::fs::copy(bots.join(format!("{bot}.wasm")), plugins.join(format!("{bot}.wasm")))?;
        }
        let bcs = Bcs::start(BcsOptions { provider_id: PROVIDER.into(), ..BcsOptions::default() }).await?;
        println!("A simulated BCS listens at {}; the plugins folder holds echo.wasm and probe.wasm.", bcs.url());
        let token = |secret: Option<&crate::wire::Secret>| secret.map_or(String::new(), |s| s.reveal().to_owned());
        let mut provider = Command::new(std::env::current_exe().context("The program's own path is unknown")?)
            .arg("serve")
            .current_dir(dir.path())
            .env("AVERNEST_PROVIDER__ID", PROVIDER)
            .env("AVERNEST_PROVIDER__BCS_URL", bcs.url())
            .env("AVERNEST_PROVIDER__BCS_TO_PROVIDER_TOKEN", token(Some(&bcs.options().b2p_token)))
            .env("AVERNEST_PROVIDER__BOT_RUNTIME_TOKEN", token(bcs.options().bot_runtime_token.as_ref()))
            .env("AVERNEST_SERVER__LISTEN", "127.0.0.1:0")
            .env("AVERNEST_LOG", "info")
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("The provider cannot be started")?;
        let stderr = provider.stderr.take().context("The provider's log cannot be read")?;
        let mut lines = BufReader::new(stderr).lines();
        let mut log = Vec::new();
        let ready = async {
            while let Some(line) = lines.next_line().await? {
                if let Some(rest) = line.strip_prefix("avernest ready on ") {
                    return Ok(rest.split(' ').next().unwrap_or_default().to_owned());
                }
                log.push(line);
            }
            bail!("The provider ended at once; it said:\n{}", log.join("\n"))
        };
        let base = tokio::time::timeout(READY, ready).await.context("The provider did not become ready")??;
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        bcs.connect(&format!("{base}/webhook"));
        println!("The provider `avernest serve` is ready at {base} (process {}).", provider.id().unwrap_or_default());
        Ok(Self { bcs, dir, bots: bots.to_owned(), provider })
    }

    /// SIGTERM, as an operator would.
    async fn end(&mut self) -> Result<()> {
        if let Some(pid) = self.provider.id().and_then(|id| rustix::process::Pid::from_raw(i32::try_from(id).ok()?)) {
            rustix::process::kill_process(pid, rustix::process::Signal::TERM)
                .context("The provider cannot be stopped")?;
        }
        let status = tokio::time::timeout(Duration::from_secs(40), self.provider.wait())
            .await
            .context("The provider did not stop")??;
        ensure!(status.success(), "The provider ended with {status}");
        println!("\nThe provider has stopped in good order.");
        Ok(())
    }
}

fn step(number: usize, what: &str) {
    println!("\n{number}. {what}");
}

async fn show(stage: &Stage) -> Result<()> {
    let bcs = &stage.bcs;
    step(1, "The bots in the folder");
    let all = bcs.ping("").await?.accepted()?;
    for bot in all.body.get("bots").and_then(|b| b.as_array()).into_iter().flatten() {
        let version = bot["version"].as_str().unwrap_or_default();
        println!(
            "   {:<8} {} ({})",
            bot["provider_bot_ref"].as_str().unwrap_or("?"),
            bot["state"].as_str().unwrap_or("?"),
            version.get(..12).unwrap_or_default()
        );
        ensure!(bot["state"] == "serving", "a sample bot is not served: {bot}");
    }

    step(2, "A conversation, streamed over SSE (HTTP/2)");
    let run = say(bcs, "echo", "demo", "Hello, network!").await?;
    println!("   headers after {:.1} ms", run.meta().headers_after.as_secs_f64() * 1e3);
    let text = stream(run).await?;
    ensure!(text == "You said: Hello, network!", "another reply was expected");

    step(3, "The same with an acknowledgement and a callback");
    println!("   you  > Are you there?");
    let begun = Instant::now();
    let ack = bcs.send("echo", "demo", "Are you there?").callback().await?.acked()?;
    println!("   {{\"ok\":true}} after {:.1} ms", ack.meta.elapsed.as_secs_f64() * 1e3);
    let outcome = bcs.outcome(&ack.meta.id).await?;
    println!(
        "   echo > {}   (callback after {:.1} ms)",
        outcome.text().unwrap_or("?"),
        begun.elapsed().as_secs_f64() * 1e3
    );
    ensure!(outcome.text() == Some("You said: Are you there?"), "another reply was expected");

    step(4, "Context that is injected, and a question about it");
    println!("   inject: The launch is on Friday at noon.");
    bcs.inject("echo", "demo", "The launch is on Friday at noon.").await?.accepted()?;
    let text = stream(say(bcs, "echo", "demo", "What do you know?").await?).await?;
    ensure!(text.contains("Friday at noon"), "the injected text is missing");

    step(5, "A bot in an endless loop, aborted");
    let mut run = say(bcs, "probe", "loop", "spin").await?;
    run.until(|e| e.is_agent("lifecycle", "start")).await?;
    let begun = Instant::now();
    let answer = bcs.abort("probe", "loop").await?.accepted()?;
    let answered = begun.elapsed();
    let ended = run.collect().await?;
    ensure!(answer.aborted && matches!(ended.outcome, Outcome::Aborted { .. }), "the run was not aborted");
    println!(
        "   aborted: answered after {:.1} ms, the stream's end after {:.1} ms",
        answered.as_secs_f64() * 1e3,
        begun.elapsed().as_secs_f64() * 1e3
    );

    step(6, "A bot replaced while it is at work");
    let mut under_way = say(bcs, "echo", "reload", "wait").await?;
    under_way.next().await?;
    let before = version(bcs).await?;
    let part = stage.dir.path().join("plugins/.echo.part");
    std::fs::copy(stage.bots.join("probe.wasm"), &part)?;
    std::fs::rename(&part, stage.dir.path().join("plugins/echo.wasm"))?;
    println!("   probe.wasm is renamed over echo.wasm …");
    let begun = Instant::now();
    let seen = async {
        while version(bcs).await? == before {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok::<_, anyhow::Error>(())
    };
    tokio::time::timeout(RELOAD, seen).await.context("the new build was not taken up")??;
    println!("   served after {} ms; no message was lost", begun.elapsed().as_millis());
    under_way.collect().await?;
    let text = stream(say(bcs, "echo", "reload", "echo I am another bot now").await?).await?;
    ensure!(text == "I am another bot now", "the old build answered");
    std::fs::copy(stage.bots.join("echo.wasm"), stage.dir.path().join("plugins/echo.wasm"))?;

    bcs.assert_clean()?;
    println!("\nAll of it kept to the protocol: the simulated BCS found no violation.");
    Ok(())
}

async fn version(bcs: &Bcs) -> Result<String> {
    let one = bcs.ping("echo").await?.accepted()?;
    Ok(one.body["bot"]["version"].as_str().unwrap_or_default().to_owned())
}

async fn say(bcs: &Bcs, bot: &str, session: &str, text: &str) -> Result<SseRun> {
    println!("   you  > {text}");
    Ok(bcs.send(bot, session, text).await?.sse()?)
}

/// Shows a stream as it comes, and gives the reply.
async fn stream(mut run: SseRun) -> Result<String> {
    print!("   bot  > ");
    let mut deltas = 0;
    while let Some(event) = run.next().await? {
        if let Some(delta) = event.delta() {
            deltas += 1;
            print!("{}", shown(delta));
            std::io::stdout().flush()?;
        }
    }
    match run.outcome() {
        Some(Outcome::Final { text, .. }) => {
            println!("{}   ({deltas} deltas)", if deltas == 0 { shown(text) } else { String::new() });
            Ok(text.clone())
        }
        Some(other) => {
            println!("[{}]", shown(&other.to_string()));
            Ok(String::new())
        }
        None => bail!("the stream had no end"),
    }
}

/// A bot's text on a terminal: without control characters, lines indented.
fn shown(text: &str) -> String {
    text.replace('\n', "\n          ").chars().filter(|c| *c == '\n' || !c.is_control()).collect()
}

/// The user's own conversation with the bots.
async fn chat(stage: &Stage) -> Result<()> {
    println!(
        "\nChat on: type a message for echo, or `@probe stream 5` for probe (try spin, wait 2000, count, request).\n\
         `/inject TEXT` adds context, `/abort` ends what runs, an empty line or Ctrl-D leaves.\n\
         The plugins folder is {}: replace a bot and go on.",
        stage.dir.path().join("plugins").display()
    );
    let bcs = &stage.bcs;
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    loop {
        print!("> ");
        std::io::stdout().flush()?;
        let Some(line) = lines.next_line().await? else { return Ok(()) };
        let line = line.trim();
        if line.is_empty() {
            return Ok(());
        }
        let (bot, text) = line.strip_prefix('@').and_then(|l| l.split_once(' ')).unwrap_or(("echo", line));
        if let Some(text) = text.strip_prefix("/inject ") {
            bcs.inject(bot, "chat", text).await?.accepted()?;
            continue;
        }
        match bcs.send(bot, "chat", text).await?.sse() {
            Ok(run) => {
                let reading = stream(run);
                tokio::pin!(reading);
                loop {
                    tokio::select! {
                        read = reading.as_mut() => { read?; break; }
                        more = lines.next_line() => match more? {
                            Some(more) if more.trim() == "/abort" => drop(bcs.abort(bot, "chat").await?),
                            Some(_) => println!("(still at work; /abort ends it)"),
                            None => return Ok(()),
                        },
                    }
                }
            }
            Err(error) => println!("   {error}"),
        }
    }
}
