//! Files in HOME that a shell, a session or git runs or reads as orders later.

use std::path::Path;

/// Names by themselves (bash(1), zsh(1), csh(1) and X sessions: start-up files; git-config(1)).
const NAMES: &[&str] = &[
    ".bash_aliases",
    ".bash_login",
    ".bash_logout",
    ".bash_profile",
    ".bashrc",
    ".cshrc",
    ".gitconfig",
    ".kshrc",
    ".login",
    ".logout",
    ".profile",
    ".tcshrc",
    ".xinitrc",
    ".xprofile",
    ".xsession",
    ".zlogin",
    ".zlogout",
    ".zprofile",
    ".zshenv",
    ".zshrc",
];

/// Folder and name (git-config(1), gitattributes(5), fish(1), sshd(8), ssh_config(5)).
const IN_FOLDER: &[(&str, &str)] = &[
    ("fish", "config.fish"),
    ("git", "attributes"),
    ("git", "config"),
    (".ssh", "authorized_keys"),
    (".ssh", "config"),
    (".ssh", "environment"),
    (".ssh", "rc"),
];

/// Two folders of which the second holds such files (XDG autostart, systemd.unit(5),
/// environment.d(5), fish(1)).
const FOLDERS: &[(&str, &str)] = &[
    (".config", "autostart"),
    (".config", "environment.d"),
    ("fish", "conf.d"),
    ("systemd", "user"),
];

/// Whether a file at `path`, which lies in HOME, is one of those.
pub(super) fn runs_later(path: &Path) -> bool {
    let names: Vec<_> = path.iter().filter_map(|n| n.to_str()).collect();
    let Some((name, folders)) = names.split_last() else {
        return false;
    };
    let folder = folders.last();
    NAMES.contains(name)
        || IN_FOLDER
            .iter()
            .any(|(above, own)| own == name && folder == Some(above))
        || folders
            .windows(2)
            .any(|pair| FOLDERS.contains(&(pair[0], pair[1])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_up_files_run_later_and_caches_do_not() {
        for (path, later) in [
            ("/home/dev/.bashrc", true),
            ("/home/dev/.gitconfig", true),
            ("/home/dev/.config/git/config", true),
            ("/home/dev/.ssh/authorized_keys", true),
            ("/home/dev/.config/autostart/x.desktop", true),
            ("/home/dev/.config/systemd/user/x.service", true),
            ("/home/dev/.config/fish/conf.d/x.fish", true),
            ("/home/dev/.cache/git/x", false),
            ("/home/dev/.config/tool/config", false),
            ("/home/dev/.config/autostart", false),
            ("/home/dev/.cargo/.package-cache", false),
            ("/home/dev/bashrc", false),
        ] {
            assert_eq!(runs_later(Path::new(path)), later, "{path}");
        }
    }
}
