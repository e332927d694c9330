#pragma once

/* The only interface to the parser library: source in, a walk over its syntax tree out.
 *
 * Only `tree.c` uses tree-sitter and the two grammars. The walk visits every visible node in the
 * order of the source, without recursion. */

#include "base/str.h"
#include "isolate/strip/strip.h"

struct tree; /* parser memory and the grammars' symbol tables */

/* The nodes that stripping cares about: name here, name in the grammar. */
#define TREE_KINDS(X)                                                                              \
    X(ABSTRACT_CLASS, "abstract_class_declaration")                                                \
    X(ABSTRACT_METHOD_SIGNATURE, "abstract_method_signature")                                      \
    X(ACCESSIBILITY, "accessibility_modifier")                                                     \
    X(AMBIENT, "ambient_declaration")                                                              \
    X(ARROW, "arrow_function")                                                                     \
    X(AS, "as_expression")                                                                         \
    X(ASSERTS_ANNOTATION, "asserts_annotation")                                                    \
    X(ASSIGNMENT, "assignment_expression")                                                         \
    X(AUGMENTED, "augmented_assignment_expression")                                                \
    X(BINARY, "binary_expression")                                                                 \
    X(CLASS, "class")                                                                              \
    X(CLASS_BODY, "class_body")                                                                    \
    X(CLASS_DECLARATION, "class_declaration")                                                      \
    X(CLASS_HERITAGE, "class_heritage")                                                            \
    X(COMMENT, "comment")                                                                          \
    X(COMPUTED_NAME, "computed_property_name")                                                     \
    X(DECORATOR, "decorator")                                                                      \
    X(EMPTY_STATEMENT, "empty_statement")                                                          \
    X(ENUM, "enum_declaration")                                                                    \
    X(EXPORT, "export_statement")                                                                  \
    X(EXPORT_SPECIFIER, "export_specifier")                                                        \
    X(EXPRESSION_STATEMENT, "expression_statement")                                                \
    X(EXTENDS, "extends_clause")                                                                   \
    X(FIELD, "public_field_definition")                                                            \
    X(FOR, "for_statement")                                                                        \
    X(FORMAL_PARAMETERS, "formal_parameters")                                                      \
    X(FUNCTION, "function_expression")                                                             \
    X(FUNCTION_DECLARATION, "function_declaration")                                                \
    X(FUNCTION_SIGNATURE, "function_signature")                                                    \
    X(GENERATOR, "generator_function")                                                             \
    X(GENERATOR_DECLARATION, "generator_function_declaration")                                     \
    X(HTML_COMMENT, "html_comment")                                                                \
    X(IDENTIFIER, "identifier")                                                                    \
    X(IMPLEMENTS, "implements_clause")                                                             \
    X(IMPORT, "import_statement")                                                                  \
    X(IMPORT_ALIAS, "import_alias")                                                                \
    X(IMPORT_REQUIRE, "import_require_clause")                                                     \
    X(IMPORT_SPECIFIER, "import_specifier")                                                        \
    X(INDEX_SIGNATURE, "index_signature")                                                          \
    X(INTERFACE, "interface_declaration")                                                          \
    X(LEXICAL_DECLARATION, "lexical_declaration")                                                  \
    X(METHOD, "method_definition")                                                                 \
    X(METHOD_SIGNATURE, "method_signature")                                                        \
    X(MODULE, "module")                                                                            \
    X(NAMESPACE, "internal_module")                                                                \
    X(NESTED_IDENTIFIER, "nested_identifier")                                                      \
    X(NON_NULL, "non_null_expression")                                                             \
    X(OPTIONAL_PARAMETER, "optional_parameter")                                                    \
    X(OVERRIDE, "override_modifier")                                                               \
    X(PARENTHESIZED, "parenthesized_expression")                                                   \
    X(PROGRAM, "program")                                                                          \
    X(REQUIRED_PARAMETER, "required_parameter")                                                    \
    X(SATISFIES, "satisfies_expression")                                                           \
    X(SHORTHAND_PATTERN, "shorthand_property_identifier_pattern")                                  \
    X(STATEMENT_BLOCK, "statement_block")                                                          \
    X(STRING, "string")                                                                            \
    X(SWITCH_CASE, "switch_case")                                                                  \
    X(SWITCH_DEFAULT, "switch_default")                                                            \
    X(TERNARY, "ternary_expression")                                                               \
    X(THIS, "this")                                                                                \
    X(TYPE_ALIAS, "type_alias_declaration")                                                        \
    X(TYPE_ANNOTATION, "type_annotation")                                                          \
    X(TYPE_ARGUMENTS, "type_arguments")                                                            \
    X(TYPE_ASSERTION, "type_assertion")                                                            \
    X(TYPE_IDENTIFIER, "type_identifier")                                                          \
    X(TYPE_PARAMETERS, "type_parameters")                                                          \
    X(TYPE_PREDICATE_ANNOTATION, "type_predicate_annotation")                                      \
    X(VARIABLE_DECLARATION, "variable_declaration")                                                \
    X(VARIABLE_DECLARATOR, "variable_declarator")                                                  \
    X(YIELD, "yield_expression")

/* Words and signs that stripping cares about. */
#define TREE_TOKENS(X)                                                                             \
    X(ABSTRACT, "abstract")                                                                        \
    X(TOKEN_AS, "as")                                                                              \
    X(BANG, "!")                                                                                   \
    X(COLON, ":")                                                                                  \
    X(DECLARE, "declare")                                                                          \
    X(EQUALS, "=")                                                                                 \
    X(QUESTION, "?")                                                                               \
    X(READONLY, "readonly")                                                                        \
    X(TOKEN_SATISFIES, "satisfies")                                                                \
    X(SEMICOLON, ";")                                                                              \
    X(TYPE, "type")                                                                                \
    X(TYPEOF, "typeof")

enum tree_kind {
    TREE_OTHER,
#define X(name, text) TREE_##name,
    TREE_KINDS(X) TREE_TOKENS(X)
#undef X
        TREE_KIND_COUNT
};

struct tree_node {
    enum tree_kind kind;
    bool is_named; /* a construct, not a word or sign */
    uint32_t start;
    uint32_t end; /* may take in a comment that precedes an implied semicolon */
};

struct tree_visitor {
    void *ctx;
    /* True to visit what is inside; then `leave` follows once that is done. */
    bool (*enter)(void *ctx, const struct tree_node *node);
    void (*leave)(void *ctx);
    /* Where the bytes of the source stand in another one, to which the nodes then refer; NULL for
     * here. `from` has one more at the end. */
    const uint32_t *from, *to;
    bool is_stopped; /* set by either call to end the walk */
};

enum tree_result {
    TREE_DONE,
    TREE_SYNTAX,    /* `ret_at`, unless NULL, is the first token that fits nowhere */
    TREE_NO_MEMORY, /* the heap's ceiling */
    TREE_TOO_DEEP,  /* more open constructs than the parser's recursion allows */
    TREE_TIMEOUT,
};

struct tree *tree_new(size_t heap_bytes) MUST_USE;
struct tree *tree_free(struct tree *tree);

/* Parses and, when the source is well formed, walks. `deadline_ns` is on the monotonic clock. */
enum tree_result tree_walk(struct tree *tree, enum strip_lang lang, struct str source,
                           int64_t deadline_ns, struct tree_visitor *visitor, uint32_t *ret_at);
