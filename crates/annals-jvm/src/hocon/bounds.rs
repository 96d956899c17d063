//! Limits that are checked in a file's tokens before parsing: the parser is recursive, and a stack
//! overflow would abort the process.
//!
//! A file within the limits is parsed and resolved on [`STACK`]; another is an error with its line.
//! Includes that cannot be resolved are found here as well.

use std::path::{Path, PathBuf};

use annals::{Error, Result};
use hocon::{Token, TokenKind};

/// The parser's stack size, several times what the limits below need.
pub(super) const STACK: usize = 256 << 20;

const BYTES_MAX: u64 = 16 << 20;
/// Levels of objects and lists, where `a.b {` makes two.
const DEPTH_MAX: usize = 64;
/// Substitutions, each of which may lead to the next.
const LINKS_MAX: usize = 2_000;
/// Files that include each other.
const INCLUDES_DEEP_MAX: usize = 16;

/// Reads a file of limited size.
pub(super) fn read(path: &Path) -> Result<String> {
    let refuse = |what: &str| Error::invalid(what).fact("file", path.display());
    let file = std::fs::metadata(path)
        .map_err(|cause| refuse("cannot read the configuration").because(cause))?;
    if file.len() > BYTES_MAX {
        return Err(refuse("a configuration has at most 16 MiB"));
    }
    let bytes = std::fs::read(path)
        .map_err(|cause| refuse("cannot read the configuration").because(cause))?;
    String::from_utf8(bytes).map_err(|_| refuse("a configuration is UTF-8"))
}

/// Checks a file and its includes; adds includes that do not exist to `missing`.
pub(super) fn check(path: &Path, text: &str, missing: &mut Vec<String>) -> Result<()> {
    check_file(path, text, missing, &mut Vec::new())
}

/// As [`check`], for a file that the files of `chain` include.
fn check_file(
    path: &Path,
    text: &str,
    missing: &mut Vec<String>,
    chain: &mut Vec<PathBuf>,
) -> Result<()> {
    let tokens = hocon::tokenize(text).map_err(|error| {
        let what = super::document::without_contents(&error.message);
        refused(path, error.line, &what)
    })?;
    check_depth(path, &tokens)?;
    for include in includes(&tokens) {
        if include.is_foreign {
            let what = "an include from the class path, a URL or a package cannot be followed; \
                put the file beside this one and include it by its name";
            return Err(refused(path, include.line, what));
        }
        let found: Vec<PathBuf> = include.candidates(path).filter(|p| p.exists()).collect();
        if found.is_empty() && !include.is_required {
            missing.push(include.name.clone());
        }
        for file in found
            .iter()
            .filter(|file| !has_extension(file, "properties"))
        {
            if chain.contains(file) || chain.len() == INCLUDES_DEEP_MAX {
                let what = "files include each other in a circle, or too deeply";
                return Err(refused(path, include.line, what));
            }
            chain.push(file.clone());
            check_file(file, &read(file)?, missing, chain)?;
            chain.pop();
        }
    }
    Ok(())
}

/// The error about a line.
pub(super) fn refused(path: &Path, line: usize, what: &str) -> Error {
    Error::invalid(format!("the configuration is not understood: {what}"))
        .fact("line", line)
        .fact("file", path.display())
}

fn check_depth(path: &Path, tokens: &[Token]) -> Result<()> {
    let too_deep = |line| {
        let what = format!("it nests deeper than {DEPTH_MAX} levels");
        refused(path, line, &what)
    };
    let (mut outer, mut depth, mut key, mut links) = (Vec::new(), 0_usize, 0, 0);
    let mut is_value = false;
    for token in tokens {
        match token.kind {
            TokenKind::Unquoted if !is_value => key += token.value.matches('.').count(),
            TokenKind::LBrace | TokenKind::LBracket => {
                outer.push(depth);
                (depth, key, is_value) = (depth + key + 1, 0, false);
            }
            TokenKind::RBrace | TokenKind::RBracket => {
                // The parser would end the file here, and ignore the rest.
                let Some(before) = outer.pop() else {
                    return Err(refused(path, token.line, "unmatched closing bracket"));
                };
                (depth, key, is_value) = (before, 0, false);
            }
            TokenKind::Newline | TokenKind::Comma => (key, is_value) = (0, false),
            TokenKind::Equals | TokenKind::Colon => is_value = true,
            TokenKind::Substitution | TokenKind::PlusEquals => {
                links += 1;
                is_value = true;
                let segments = token.subst.as_ref().map_or(0, |s| s.segments.len());
                if segments > DEPTH_MAX {
                    return Err(too_deep(token.line));
                }
            }
            _ => {}
        }
        if depth + key > DEPTH_MAX {
            return Err(too_deep(token.line));
        }
        if links > LINKS_MAX {
            let what = format!("it has more than {LINKS_MAX} substitutions");
            return Err(refused(path, token.line, &what));
        }
    }
    Ok(())
}

struct Include {
    name: String,
    line: usize,
    is_required: bool,
    /// From the class path, a URL or a package.
    is_foreign: bool,
    /// Relative to the working directory, not to the file.
    is_file: bool,
}

impl Include {
    /// The path where the parser looks for it.
    fn candidates(&self, from: &Path) -> impl Iterator<Item = PathBuf> + use<> {
        let base = match self.is_file {
            true => Path::new(""),
            false => from.parent().unwrap_or(Path::new("")),
        };
        let path = base.join(&self.name);
        let all = match path.extension() {
            Some(_) => vec![path],
            None => ["properties", "json", "conf"]
                .map(|extension| path.with_extension(extension))
                .to_vec(),
        };
        all.into_iter()
    }
}

fn has_extension(path: &Path, want: &str) -> bool {
    path.extension().is_some_and(|extension| extension == want)
}

/// Parses `include "name"` and `include required(file("name"))` at the position of a key.
fn includes(tokens: &[Token]) -> Vec<Include> {
    let mut found = Vec::new();
    let mut begins_field = true;
    let mut rest = tokens.iter();
    while let Some(token) = rest.next() {
        let is_include = token.kind == TokenKind::Unquoted
            && token.value.split('(').next().unwrap_or_default().trim() == "include";
        if begins_field && is_include {
            let after = rest.as_slice();
            let end =
                |token: &Token| matches!(token.kind, TokenKind::QuotedString | TokenKind::Newline);
            let words = after.iter().take_while(|token| !end(token));
            let how: String = words.map(|token| token.value.as_str()).collect();
            let name = after.iter().find(|token| end(token));
            let is_name = |token: &&Token| token.kind == TokenKind::QuotedString;
            if let Some(name) = name.filter(is_name) {
                found.push(Include {
                    name: name.value.clone(),
                    line: token.line,
                    is_required: how.contains("required"),
                    is_foreign: ["classpath", "url", "package"]
                        .iter()
                        .any(|w| how.contains(w)),
                    is_file: how.contains("file"),
                });
            }
        }
        begins_field = matches!(
            token.kind,
            TokenKind::Newline | TokenKind::Comma | TokenKind::LBrace
        );
    }
    found
}
