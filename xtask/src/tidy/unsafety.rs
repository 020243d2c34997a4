//! Unsafe is bought back per module, and the module's heading states the
//! invariants that its blocks rest on.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Attribute, Expr, Item, Lit, Meta};

use crate::diagnostic::Diagnostic;
use crate::tidy::source::RustSource;

pub(crate) fn check(source: &RustSource<'_>) -> Vec<Diagnostic> {
    let allowed = allows_unsafe(&source.syntax.attrs);
    let first = first_unsafe(&source.syntax.items, allowed);
    let mut diagnostics = Vec::new();
    if let Some(line) = first.outside {
        diagnostics.push(Diagnostic::new(
            source.path,
            line,
            "unsafe in a module that does not say so",
            "move it to a module headed by #![allow(unsafe_code)] and its invariants",
        ));
    }
    if allowed && first.any.is_none() {
        diagnostics.push(Diagnostic::new(
            source.path,
            1,
            "#![allow(unsafe_code)] with nothing unsafe",
            "take the line out",
        ));
    }
    if allowed && first.any.is_some() && !source.is_test && !states_invariants(source) {
        diagnostics.push(Diagnostic::new(
            source.path,
            1,
            "an unsafe module whose heading states no invariant",
            "say under //! which invariants make its blocks sound",
        ));
    }
    diagnostics
}

/// Lines of the first `unsafe`: anywhere, and where it is not allowed.
#[derive(Default)]
struct First {
    any: Option<usize>,
    outside: Option<usize>,
}

fn first_unsafe(items: &[Item], allowed: bool) -> First {
    let mut first = First::default();
    for item in items {
        let found = match item {
            Item::Mod(module) if module.content.is_some() => {
                let items = module.content.iter().flat_map(|(_, items)| items).cloned();
                let items: Vec<Item> = items.collect();
                first_unsafe(&items, allowed || allows_unsafe(&module.attrs))
            }
            _ => {
                let any = keyword_in(item.to_token_stream());
                First { any, outside: any.filter(|_| !allowed) }
            }
        };
        first.any = first.any.or(found.any);
        first.outside = first.outside.or(found.outside);
    }
    first
}

fn keyword_in(tokens: TokenStream) -> Option<usize> {
    tokens.into_iter().find_map(|token| match token {
        TokenTree::Ident(ident) if ident == "unsafe" => Some(ident.span().start().line),
        TokenTree::Group(group) => keyword_in(group.stream()),
        _ => None,
    })
}

fn allows_unsafe(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) => {
            list.path.is_ident("allow")
                && list
                    .tokens
                    .clone()
                    .into_iter()
                    .any(|token| matches!(token, TokenTree::Ident(ident) if ident == "unsafe_code"))
        }
        _ => false,
    })
}

fn states_invariants(source: &RustSource<'_>) -> bool {
    source.syntax.attrs.iter().any(|attribute| match &attribute.meta {
        Meta::NameValue(doc) if doc.path.is_ident("doc") => match &doc.value {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Str(text) => {
                    let text = text.value().to_lowercase();
                    text.contains("invariant") || text.contains("# safety")
                }
                _ => false,
            },
            _ => false,
        },
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source::tests::source;

    fn said(text: &str) -> Vec<String> {
        check(&source("a.rs", text)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn unsafe_needs_the_heading() {
        let complaint = "unsafe in a module that does not say so; move it to a module headed by \
                         #![allow(unsafe_code)] and its invariants";
        for text in [
            "\nfn f() { unsafe { g() } }",
            "\nunsafe impl Sync for A {}",
            "\nmod m { fn f() { unsafe { g() } } }",
            "\n#[unsafe(no_mangle)] fn f() {}",
            "\nm!(unsafe { g() });",
        ] {
            assert_eq!(said(text), [format!("a.rs:2: {complaint}")], "{text}");
        }
    }

    #[test]
    fn the_heading_states_invariants() {
        let body = "#![allow(unsafe_code)]\nfn f() { unsafe { g() } }";
        assert_eq!(
            said(&format!("//! Maps pages.\n{body}")),
            ["a.rs:1: an unsafe module whose heading states no invariant; \
                 say under //! which invariants make its blocks sound"]
        );
        for heading in ["//! Invariants: I1, never null.", "//! # Safety\n//!\n//! Never null."] {
            assert_eq!(said(&format!("{heading}\n{body}")), Vec::<String>::new());
        }
    }

    #[test]
    fn an_inline_module_can_buy_it_back_too() {
        let text = "mod raw { #![allow(unsafe_code)] fn f() { unsafe { g() } } }";
        assert_eq!(said(text), Vec::<String>::new());
    }

    #[test]
    fn an_allowance_for_nothing_is_refused() {
        assert_eq!(
            said("//! Invariants.\n#![allow(unsafe_code)]\nfn f() {}"),
            ["a.rs:1: #![allow(unsafe_code)] with nothing unsafe; take the line out"]
        );
    }
}
