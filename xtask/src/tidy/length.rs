//! A file has one job, a function fits a screen, and long tests stand beside
//! the file.

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Block, ImplItemFn, ItemFn, Signature, TraitItemFn};

use crate::diagnostic::Diagnostic;
use crate::tidy::source::RustSource;

/// Lines of a file without its inline tests.
const FILE_LINES: usize = 400;
/// Lines of a function, from its signature to its closing brace.
const FUNCTION_LINES: usize = 70;
/// Lines of a file's inline tests.
const INLINE_TEST_LINES: usize = 150;

pub(crate) fn check(source: &RustSource<'_>) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    let tests = source.inline_tests();
    let in_tests: usize = tests.iter().map(|(first, last)| last - first + 1).sum();
    let alone = source.text.lines().count() - in_tests;
    if alone > FILE_LINES {
        diagnostics.push(Diagnostic::new(
            source.path,
            1,
            format!("{alone} lines without tests, at most {FILE_LINES}"),
            "split it where its second idea begins",
        ));
    }
    if in_tests > INLINE_TEST_LINES {
        let line = tests.first().map_or(1, |(first, _)| *first);
        diagnostics.push(Diagnostic::new(
            source.path,
            line,
            format!("{in_tests} lines of inline tests, at most {INLINE_TEST_LINES}"),
            "move them to a sibling tests.rs",
        ));
    }
    let mut functions = Functions { path: source.path, diagnostics };
    functions.visit_file(&source.syntax);
    functions.diagnostics
}

struct Functions<'a> {
    path: &'a str,
    diagnostics: Vec<Diagnostic>,
}

impl Functions<'_> {
    fn measure(&mut self, signature: &Signature, block: &Block) {
        let first = signature.span().start().line;
        let lines = block.span().end().line - first + 1;
        if lines > FUNCTION_LINES {
            self.diagnostics.push(Diagnostic::new(
                self.path,
                first,
                format!("function {} has {lines} lines, at most {FUNCTION_LINES}", signature.ident),
                "give its steps names of their own",
            ));
        }
    }
}

impl<'ast> Visit<'ast> for Functions<'_> {
    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        self.measure(&function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        self.measure(&function.sig, &function.block);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast TraitItemFn) {
        if let Some(block) = &function.default {
            self.measure(&function.sig, block);
        }
        visit::visit_trait_item_fn(self, function);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source::tests::source;

    fn said(text: &str) -> Vec<String> {
        check(&source("a.rs", text)).iter().map(ToString::to_string).collect()
    }

    fn lines(count: usize) -> String {
        "const _: u8 = 0;\n".repeat(count)
    }

    #[test]
    fn a_file_is_400_lines_and_its_tests_do_not_count() {
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", lines(100));
        assert_eq!(said(&format!("{}{tests}", lines(400))), Vec::<String>::new());
        assert_eq!(
            said(&format!("{}{tests}", lines(401))),
            ["a.rs:1: 401 lines without tests, at most 400; split it where its second idea begins"]
        );
    }

    #[test]
    fn inline_tests_are_150_lines() {
        let tests = |inner| format!("#[cfg(test)]\nmod tests {{\n{}}}\n", lines(inner));
        assert_eq!(said(&tests(147)), Vec::<String>::new());
        assert_eq!(
            said(&tests(148)),
            ["a.rs:1: 151 lines of inline tests, at most 150; move them to a sibling tests.rs"]
        );
    }

    #[test]
    fn a_function_is_70_lines_wherever_it_stands() {
        let function = |inner| format!("fn long() {{\n{}}}\n", "let _ = 0;\n".repeat(inner));
        assert_eq!(said(&format!("/// Told.\n{}", function(68))), Vec::<String>::new());
        let complaint = "function long has 71 lines, at most 70; give its steps names of their own";
        assert_eq!(said(&function(69)), [format!("a.rs:1: {complaint}")]);
        for holder in ["impl A", "trait A", "mod a", "fn outer()"] {
            let text = format!("{holder} {{\n{}}}\n", function(69));
            let said = said(&text);
            assert!(said.contains(&format!("a.rs:2: {complaint}")), "{holder}: {said:?}");
        }
    }
}
