//! pcache under bad circumstances: killed at any moment, with a full disk, many at
//! once.
//!
//! Each round builds a small [`project`] under pcache and disturbs it; then it is
//! built again, and the tree and the output must be those of a plain build. A store
//! that went through all of it must pass `pcache fsck`.
//!
//! **Invariant:** a round is judged by what the undisturbed build after it leaves; of
//! the disturbed one nothing is expected but that it comes to an end.

mod project;
mod rounds;

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context, ensure};

use crate::support::pcache::{self, Build, Tested};
use rounds::{Rounds, Tally};

/// The smallest ext4 (KiB).
const LEAST_EXT4: usize = 200;

/// Options of `cargo xtask pcache-kills`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// Builds that are killed, each followed by one that is not.
    #[arg(long, default_value_t = 1000)]
    kills: u64,
    /// Builds whose store is on a disk that gets full.
    #[arg(long, default_value_t = 200)]
    full: u64,
    /// Builds by eight pcaches at once.
    #[arg(long, default_value_t = 400)]
    together: u64,
    /// The seed of chance.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    tested: Tested,
    /// Let those disks be files with an ext4 in them instead of memory; for root.
    #[arg(long)]
    ext4: bool,
    /// File systems can be mounted.
    #[arg(long, hide = true)]
    inside: bool,
}

/// Runs a few rounds of each kind, as continuous integration does.
///
/// # Errors
///
/// Those of [`run`].
pub(crate) fn run_briefly() -> anyhow::Result<ExitCode> {
    run(&Args {
        kills: 60,
        full: 15,
        together: 40,
        seed: 1,
        tested: Tested::new(pcache::build(Build::Test)?),
        ext4: false,
        inside: false,
    })
}

/// Runs all rounds.
///
/// # Errors
///
/// When the machinery fails; what is wrong with pcache is printed and answered with
/// a failing exit code.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let program = args.tested.program(Build::Release)?;
    let scratch = args.tested.scratch("kills-")?;
    // What a killed pcache leaves behind is ours to wait for.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .context("becoming the one who waits for orphans")?;
    let rounds = Rounds::new(program.clone(), scratch.path(), args.seed)?;
    let mut total = Tally::default();
    let mut part = |name: &str, tally: anyhow::Result<Tally>, began: Instant| {
        let tally = tally?;
        println!("{name}: {tally} in {:.1} s", began.elapsed().as_secs_f64());
        total.add(&tally);
        anyhow::Ok(())
    };
    let began = Instant::now();
    if args.inside {
        part("full disks", rounds.full(args.full, args.ext4), began)?;
    } else {
        if args.kills > 0 {
            part("kills", rounds.kills(args.kills), began)?;
        }
        let began = Instant::now();
        if args.together > 0 {
            part("together", rounds.together(args.together), began)?;
        }
        if args.full > 0 && !full_disks(args, &program, scratch.path())? {
            total.wrong += 1;
        }
    }
    Ok(if total.wrong == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The rounds with full disks, where small file systems can be mounted; whether
/// nothing was wrong.
fn full_disks(args: &Args, program: &Path, scratch: &Path) -> anyhow::Result<bool> {
    if args.ext4 {
        let args = Args {
            inside: true,
            tested: args.tested.clone().at(scratch.into()),
            ..args.clone()
        };
        return Ok(run(&args)? == ExitCode::SUCCESS);
    }
    let own = std::env::current_exe().context("the path of this program")?;
    let script = r#"mount -t tmpfs none "$0" 2> /dev/null || exit 77; umount "$0"; exec "$@""#;
    let probe = scratch.join("probe");
    std::fs::create_dir_all(&probe)?;
    let status = Command::new("unshare")
        .args(["--mount", "--map-root-user", "sh", "-c", script])
        .arg(&probe)
        .arg(own)
        .args(["pcache-kills", "--inside", "--full", &args.full.to_string()])
        .args(["--seed", &args.seed.to_string(), "--pcache"])
        .arg(program)
        .arg("--work")
        .arg(scratch)
        .status();
    match status.map(|status| status.code()) {
        Ok(Some(0)) => Ok(true),
        Ok(Some(1)) if !can_unshare() => {
            println!("full disks: skipped, namespaces are forbidden here");
            Ok(true)
        }
        Ok(Some(77)) | Err(_) => {
            println!("full disks: skipped, no file system can be mounted here");
            Ok(true)
        }
        Ok(_) => Ok(false),
    }
}

fn can_unshare() -> bool {
    Command::new("unshare")
        .args(["--mount", "--map-root-user", "true"])
        .stderr(std::process::Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Mounts an empty file system of so many KiB.
fn mount(place: &Path, kib: usize, ext4: bool) -> anyhow::Result<()> {
    std::fs::create_dir_all(place)?;
    let mut command = Command::new("mount");
    if ext4 {
        let image = place.with_extension("ext4");
        // The last one may still be in use for a moment.
        let _ = std::fs::remove_file(&image);
        // Less cannot be formatted.
        let kib = kib.max(LEAST_EXT4) as u64;
        std::fs::File::create(&image)?.set_len(kib << 10)?;
        let status = Command::new("mkfs.ext4")
            .args(["-q", "-F", "-O", "^has_journal", "-m", "0"])
            .arg(&image)
            .status()
            .context("starting mkfs.ext4")?;
        ensure!(status.success(), "cannot format {}", image.display());
        command.args(["-o", "loop"]).arg(image);
    } else {
        command.args(["-t", "tmpfs", "-o", &format!("size={kib}k"), "none"]);
    }
    let status = command.arg(place).status().context("starting mount")?;
    ensure!(status.success(), "cannot mount {}", place.display());
    Ok(())
}

/// Unmounts it, as soon as nobody uses it any more.
fn unmount(place: &Path) -> anyhow::Result<()> {
    let status = Command::new("umount")
        .arg("--lazy")
        .arg(place)
        .status()
        .context("starting umount")?;
    ensure!(status.success(), "cannot unmount {}", place.display());
    Ok(())
}
