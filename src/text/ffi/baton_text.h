// The C interface of the Rust library in this folder: byte-level BPE through Hugging Face
// `tokenizers`, chat templates through `minijinja`. Only src/text/tokenizer.cc includes it.
//
// Every call returns one of BatonTextCode and fills either its output or `error` (a message without
// a terminating zero); both are freed with the functions below. No panic or exception crosses this
// boundary. After creation a handle is immutable to its callers: calls from several threads need no
// lock. Slices are borrowed for the length of a call and need not be terminated.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  BATON_TEXT_OK = 0,
  BATON_TEXT_INVALID = 1,  // the input is wrong; `error` says what
  BATON_TEXT_PANIC = 2,    // a bug in the library; `error` has its message
} BatonTextCode;

typedef struct {
  const char* data;
  size_t size;
} BatonTextSlice;

typedef struct {
  char* data;
  size_t size;
} BatonTextBytes;

typedef struct {
  int32_t* data;
  size_t size;
} BatonTextIds;

typedef struct {
  const BatonTextSlice* tokens;  // by id, byte-level spelling
  const int32_t* token_types;    // one per token, GGUF's numbering
  size_t token_count;
  const BatonTextSlice* merges;  // "left right", best first
  size_t merge_count;
  BatonTextSlice pre;            // which pre-tokenizer
  BatonTextSlice chat_template;  // empty: none
  int32_t bos_id;                // -1: none
  int32_t eos_id;
} BatonTextSpec;

typedef struct BatonTextTokenizer BatonTextTokenizer;

BatonTextCode baton_text_create(const BatonTextSpec* spec, BatonTextTokenizer** tokenizer,
                                BatonTextBytes* error);
void baton_text_free(BatonTextTokenizer* tokenizer);

// `parse_special` 1: the spelling of a control token becomes that token.
BatonTextCode baton_text_encode(const BatonTextTokenizer* tokenizer, BatonTextSlice text,
                                int parse_special, BatonTextIds* ids, BatonTextBytes* error);
// The library's own decoder, control tokens skipped, invalid UTF-8 replaced: the check on
// Tokenizer::Decode, which needs exact bytes that this decoder cannot give.
BatonTextCode baton_text_decode(const BatonTextTokenizer* tokenizer, const int32_t* ids,
                                size_t count, BatonTextBytes* text, BatonTextBytes* error);
// `messages_json`: a JSON array of objects with a "role".
BatonTextCode baton_text_render(const BatonTextTokenizer* tokenizer, BatonTextSlice messages_json,
                                int add_generation_prompt, BatonTextBytes* text,
                                BatonTextBytes* error);
// Rendered with the generation prompt, then encoded; no control token comes out of a message.
BatonTextCode baton_text_encode_chat(const BatonTextTokenizer* tokenizer,
                                     BatonTextSlice messages_json, BatonTextIds* ids,
                                     BatonTextBytes* error);

void baton_text_free_bytes(BatonTextBytes bytes);
void baton_text_free_ids(BatonTextIds ids);

#ifdef __cplusplus
}
#endif
