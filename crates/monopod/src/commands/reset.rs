//! `monopod reset`: takes away all that a data directory holds, running pods included.

use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;

use crate::cli::ResetOptions;
use crate::data_dir::DataDir;
use crate::failure::Explained;

pub(super) fn execute(options: &ResetOptions, root: &Path) -> anyhow::Result<u8> {
    if !root.exists() {
        writeln!(std::io::stdout(), "There is nothing at {}", root.display())?;
        return Ok(0);
    }
    let data_dir = DataDir::open(root)?;
    require_own(&data_dir)?;
    if !options.yes {
        return Err(Explained::usage(
            format!("this removes `{}` with all images, and kills its pods", data_dir.root().display()),
            "say `monopod reset --yes`",
        ));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        for node_dir in data_dir.all_runs()? {
            node::agent::remove_everything(&node_dir)
                .await
                .with_context(|| format!("cannot take away the pods of `{}`", node_dir.display()))?;
        }
        anyhow::Ok(())
    })?;
    let root = data_dir.root();
    std::fs::remove_dir_all(root).with_context(|| format!("cannot remove `{}`", root.display()))?;
    writeln!(std::io::stdout(), "Removed {}", root.display())?;
    Ok(0)
}

/// A directory that monopod did not make is not removed, whatever `--data-dir` says.
fn require_own(data_dir: &DataDir) -> anyhow::Result<()> {
    const OWN: [&str; 4] = ["images", "runs", "node", "store"];
    let entries =
        std::fs::read_dir(data_dir.root()).with_context(|| format!("cannot read `{}`", data_dir.root().display()))?;
    for entry in entries {
        let name = entry?.file_name();
        if !OWN.iter().any(|own| name == *own) {
            let message = format!("`{}` holds `{}`, which is not monopod's", data_dir.root().display(), name.display());
            return Err(Explained::usage(
                message,
                "name monopod's own directory with `--data-dir`, or remove it by hand",
            ));
        }
    }
    Ok(())
}
