//! Programs run in containers, and looks at containers' own streams.

use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use lifecycle::effect::Signal;
use node::runtime::{AttachConfig, ExecConfig, RuntimeError};
use node::shim::ExecExit;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};

use crate::trial;
use crate::world::{Outcome, PATIENCE, World};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("an_exec_gives_output_and_exit_code", captures),
        trial("an_exec_that_takes_too_long_is_killed", is_killed_in_time),
        trial("an_exec_of_a_missing_program_is_an_error_that_names_it", lacks_its_program),
        trial("an_exec_in_an_ended_container_is_refused", is_refused),
        trial("an_exec_can_be_written_to_and_closed", is_written_to),
        trial("an_exec_can_have_a_terminal_that_is_resized", has_a_terminal),
        trial("output_past_the_limit_is_read_and_thrown_away", is_limited),
        trial("a_child_that_holds_the_output_open_does_not_hold_up_the_answer", does_not_wait_for_children),
        trial("twenty_execs_in_parallel_all_end", runs_twenty),
        trial("attach_shows_output_from_here_on", attaches),
        trial("stdin_once_ends_the_input_with_the_first_attach", closes_stdin_once),
        trial("without_stdin_once_the_input_stays_open", keeps_stdin),
        trial("attach_to_a_terminal_reads_writes_and_resizes", attaches_to_a_terminal),
        trial("an_attached_reader_that_does_not_read_holds_nothing_up", ignores_a_slow_reader),
    ]
}

async fn captures(world: World) -> Outcome<World> {
    let (_, container) = world.run("exec sleep 1000").await?;
    let captured = world.exec(&container, "echo out; echo err >&2; exit 5").await?;
    assert_eq!(
        (captured.exit, String::from_utf8_lossy(&captured.output).as_ref()),
        (ExecExit { exit_code: 5, timed_out: false }, "out\nerr\n")
    );
    let killed = world.exec(&container, "kill -KILL $$").await?;
    assert_eq!(killed.exit.exit_code, 137);
    Ok(world)
}

async fn is_killed_in_time(world: World) -> Outcome<World> {
    let (_, container) = world.run("exec sleep 1000").await?;
    let before = world.contained_processes();
    let argv = ["/bin/sh", "-c", "trap '' TERM; echo begun; sleep 1001 & wait; sleep 1002"].map(str::to_owned);
    let begun = Instant::now();
    let captured = world.runtime.exec_captured(&container, &argv, Some(Duration::from_millis(300)), 1000).await?;
    assert_eq!(
        (captured.exit, captured.output.as_slice()),
        (ExecExit { exit_code: 137, timed_out: true }, b"begun\n".as_slice())
    );
    assert!(begun.elapsed() >= Duration::from_millis(300) && begun.elapsed() < PATIENCE);
    world.output(&container, "until ! ps -o args | grep -q '[s]leep 1001'; do :; done").await?;
    assert_eq!(world.contained_processes(), before);
    Ok(world)
}

async fn lacks_its_program(world: World) -> Outcome<World> {
    let (_, container) = world.run("exec sleep 1000").await?;
    let argv = ["nosuchthing".to_owned()];
    let error = world.runtime.exec_captured(&container, &argv, None, 1000).await.err().ok_or("it ran")?;
    assert!(
        matches!(&error, RuntimeError::ExecFailed(text) if text == "exec: \"nosuchthing\": executable file not found in $PATH"),
        "{error:?}"
    );
    Ok(world)
}

async fn is_refused(mut world: World) -> Outcome<World> {
    let (sandbox, container) = world.run("exit 0").await?;
    world.exit(&container).await?;
    let error = world.exec(&container, "true").await.err().ok_or("it ran")?.to_string();
    assert_eq!(error, format!("container `{container}` is not running"));
    world.runtime.stop_sandbox(&sandbox).await?;
    let error = world.exec(&container, "true").await.err().ok_or("it ran")?.to_string();
    assert_eq!(error, format!("pod sandbox `{sandbox}` has ended"));
    Ok(world)
}

async fn is_written_to(world: World) -> Outcome<World> {
    let (_, container) = world.run("exec sleep 1000").await?;
    let config = ExecConfig { argv: vec!["/bin/cat".into()], stdin: true, stdout: true, ..ExecConfig::default() };
    let mut session = world.runtime.exec(&container, &config).await?;
    let mut stdin = session.stdin.take().ok_or("no stdin")?;
    let mut stdout = session.stdout.take().ok_or("no stdout")?;
    // More than pipes hold: both ends have to move.
    let sent: Vec<u8> = (0..500_000_u32).map(|index| (index % 251) as u8).collect();
    let writing = async {
        stdin.write_all(&sent).await?;
        stdin.shutdown().await
    };
    let mut received = Vec::new();
    let (written, read) = tokio::join!(writing, stdout.read_to_end(&mut received));
    written?;
    read?;
    assert!(received == sent, "{} of {} bytes came back", received.len(), sent.len());
    assert_eq!(session.wait().await?.exit_code, 0);
    Ok(world)
}

async fn has_a_terminal(world: World) -> Outcome<World> {
    let (_, container) = world.run("exec sleep 1000").await?;
    let argv = ["/bin/sh", "-c", "tty; echo $TERM; read line; stty size; exit 4"].map(str::to_owned).to_vec();
    let config = ExecConfig { argv, tty: true, stdin: true, stdout: true, stderr: true, ..ExecConfig::default() };
    let mut session = world.runtime.exec(&container, &config).await?;
    assert!(session.stderr.is_none());
    session.terminal.as_ref().ok_or("no terminal")?.resize(123, 45)?;
    let begun = "/dev/pts/0\r\nxterm\r\n";
    let stdout = session.stdout.as_mut().ok_or("no stdout")?;
    assert_eq!(read_exactly(stdout, begun.len()).await?, begun);
    session.stdin.as_mut().ok_or("no stdin")?.write_all(b"go\n").await?;
    let mut out = String::new();
    stdout.read_to_string(&mut out).await?;
    assert_eq!(out, "go\r\n45 123\r\n");
    assert_eq!(session.wait().await?.exit_code, 4);
    Ok(world)
}

async fn is_limited(world: World) -> Outcome<World> {
    let (_, container) = world.run("exec sleep 1000").await?;
    let argv = ["/bin/sh", "-c", "yes | head -c 3000000; echo end >&2"].map(str::to_owned);
    let captured = world.runtime.exec_captured(&container, &argv, Some(PATIENCE), 10).await?;
    assert_eq!((captured.exit.exit_code, captured.output.as_slice()), (0, b"y\ny\ny\ny\ny\n".as_slice()));
    Ok(world)
}

async fn does_not_wait_for_children(world: World) -> Outcome<World> {
    let (_, container) = world.run("exec sleep 1000").await?;
    let captured = world.exec(&container, "setsid sleep 1000 & echo done").await?;
    assert_eq!((captured.exit.exit_code, captured.output.as_slice()), (0, b"done\n".as_slice()));
    Ok(world)
}

async fn runs_twenty(world: World) -> Outcome<World> {
    let (_, container) = world.run("exec sleep 1000").await?;
    let mut tasks = tokio::task::JoinSet::new();
    for index in 0..20 {
        let (runtime, container) = (world.runtime.clone(), container.clone());
        tasks.spawn(async move {
            let argv = ["/bin/sh", "-c", &format!("echo {index}; exit {index}")].map(str::to_owned);
            runtime.exec_captured(&container, &argv, Some(PATIENCE), 1000).await
        });
    }
    let mut codes = Vec::new();
    while let Some(captured) = tasks.join_next().await {
        let captured = captured??;
        assert_eq!(String::from_utf8_lossy(&captured.output), format!("{}\n", captured.exit.exit_code));
        codes.push(captured.exit.exit_code);
    }
    codes.sort_unstable();
    assert_eq!(codes, (0..20).collect::<Vec<i32>>());
    Ok(world)
}

async fn attaches(mut world: World) -> Outcome<World> {
    let mut config = world.shell("main", "echo before; read line; echo got $line; echo err >&2")?;
    config.stdin = true;
    let (_, container) = world.run_container(&config).await?;
    world.wait_for_log("main", "before\n").await?;
    let attach = AttachConfig { stdin: true, stdout: true, stderr: true };
    let mut session = world.runtime.attach(&container, &attach).await?;
    session.stdin.as_mut().ok_or("no stdin")?.write_all(b"it\n").await?;
    let (mut out, mut err) = (String::new(), String::new());
    session.stdout.as_mut().ok_or("no stdout")?.read_to_string(&mut out).await?;
    session.stderr.as_mut().ok_or("no stderr")?.read_to_string(&mut err).await?;
    session.wait().await;
    assert_eq!((out.as_str(), err.as_str()), ("got it\n", "err\n"));
    world.exit(&container).await?;
    Ok(world)
}

async fn closes_stdin_once(mut world: World) -> Outcome<World> {
    let mut config = world.program("main", &["/bin/cat"])?;
    config.stdin = true;
    config.stdin_once = true;
    let (_, container) = world.run_container(&config).await?;
    let attach = AttachConfig { stdin: true, stdout: true, stderr: false };
    let mut session = world.runtime.attach(&container, &attach).await?;
    session.stdin.as_mut().ok_or("no stdin")?.write_all(b"all of it").await?;
    session.close_stdin().await?;
    let mut out = String::new();
    session.stdout.as_mut().ok_or("no stdout")?.read_to_string(&mut out).await?;
    assert_eq!((out.as_str(), world.exit(&container).await?.exit_code), ("all of it", 0));
    Ok(world)
}

async fn keeps_stdin(mut world: World) -> Outcome<World> {
    let mut config = world.program("main", &["/bin/cat"])?;
    config.stdin = true;
    let (_, container) = world.run_container(&config).await?;
    for text in ["first\n", "second\n"] {
        let attach = AttachConfig { stdin: true, stdout: true, stderr: false };
        let mut session = world.runtime.attach(&container, &attach).await?;
        session.stdin.as_mut().ok_or("no stdin")?.write_all(text.as_bytes()).await?;
        let read = read_exactly(session.stdout.as_mut().ok_or("no stdout")?, text.len()).await?;
        assert_eq!(read, text);
        session.close_stdin().await?;
    }
    world.wait_for_log("main", "first\nsecond\n").await?;
    world.runtime.signal_container(&container, &Signal::Kill).await?;
    world.exit(&container).await?;
    Ok(world)
}

async fn attaches_to_a_terminal(mut world: World) -> Outcome<World> {
    let mut config = world.shell("main", "echo on $(tty); read line; stty size; exit 6")?;
    config.tty = true;
    config.stdin = true;
    let (_, container) = world.run_container(&config).await?;
    world.wait_for_log("main", "on /dev/pts/0\n").await?;
    let attach = AttachConfig { stdin: true, stdout: true, stderr: true };
    let mut session = world.runtime.attach(&container, &attach).await?;
    session.terminal.as_ref().ok_or("no terminal")?.resize(90, 30)?;
    session.stdin.as_mut().ok_or("no stdin")?.write_all(b"x\n").await?;
    let mut out = String::new();
    session.stdout.as_mut().ok_or("no stdout")?.read_to_string(&mut out).await?;
    assert_eq!((out.as_str(), world.exit(&container).await?.exit_code), ("x\r\n30 90\r\n", 6));
    assert_eq!(world.log("main")?, "on /dev/pts/0\nx\n30 90\n");
    Ok(world)
}

async fn ignores_a_slow_reader(mut world: World) -> Outcome<World> {
    let mut config = world.shell("main", "read line; tr '\\0' x < /dev/zero | head -c 30000000; exit 3")?;
    config.stdin = true;
    let (_, container) = world.run_container(&config).await?;
    let attach = AttachConfig { stdin: true, stdout: true, stderr: false };
    let mut session = world.runtime.attach(&container, &attach).await?;
    session.stdin.as_mut().ok_or("no stdin")?.write_all(b"go\n").await?;
    assert_eq!(world.exit(&container).await?.exit_code, 3);
    Ok(world)
}

async fn read_exactly(stream: &mut (impl AsyncRead + Unpin), length: usize) -> Outcome<String> {
    let mut bytes = vec![0; length];
    tokio::time::timeout(PATIENCE, stream.read_exact(&mut bytes)).await??;
    Ok(String::from_utf8(bytes)?)
}
