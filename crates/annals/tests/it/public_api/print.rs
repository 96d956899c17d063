//! Tokens as one line of text, spaced like rustfmt does.

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use quote::ToTokens;

pub(super) fn text(tokens: impl ToTokens) -> String {
    let mut line = String::new();
    write(&mut line, tokens.into_token_stream());
    line.trim_end_matches([',', ' ']).to_owned()
}

fn write(line: &mut String, tokens: TokenStream) {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Group(group) => {
                let inner = text(group.stream());
                *line += &match group.delimiter() {
                    Delimiter::Parenthesis => format!("({inner})"),
                    Delimiter::Bracket => format!("[{inner}]"),
                    Delimiter::Brace => format!(" {{ {inner} }} "),
                    Delimiter::None => inner,
                };
            }
            TokenTree::Punct(punct) => {
                let mut sign = punct.as_char().to_string();
                if punct.spacing() == Spacing::Joint
                    && let Some(TokenTree::Punct(next)) = tokens.peek()
                    && ["->", "=>", "::", "=="].contains(&&*format!("{sign}{next}"))
                {
                    sign.push(next.as_char());
                    tokens.next();
                }
                write_punct(line, &sign);
            }
            word => write_word(line, &word.to_string()),
        }
    }
}

fn write_punct(line: &mut String, sign: &str) {
    match sign {
        "," | ";" | ":" => {
            line.truncate(line.trim_end().len());
            *line += sign;
            line.push(' ');
        }
        "->" | "=>" | "==" | "=" | "+" => {
            line.truncate(line.trim_end().len());
            *line += &format!(" {sign} ");
        }
        "&" | "'" | "*" => write_word(line, sign),
        ">" => {
            line.truncate(line.trim_end_matches([',', ' ']).len());
            line.push('>');
        }
        _ => *line += sign,
    }
}

fn write_word(line: &mut String, word: &str) {
    let is_open = |c: char| c.is_alphanumeric() || "_>)]}\"".contains(c);
    if line.ends_with(is_open) {
        line.push(' ');
    }
    *line += word;
}
