/* Policies and analyses for kvsim that are compiled on their own: the whole interface, in plain C.
 *
 * A plug-in is a shared library that defines kvsim_plugin(), at the end of this file:
 *
 *   cc -O2 -shared -fPIC mine.c -o libmine.so
 *   kvsim --plugin ./libmine.so sweep trace.h5 --policies mine -o results.sqlite
 *
 * Strings are UTF-8 in one line. What a descriptor points to is copied, its functions apart. A
 * later header of the same version may add members at the end of a descriptor; its `size` says
 * which it has. */
#ifndef KVSIM_PLUGIN_H
#define KVSIM_PLUGIN_H

#include <stdint.h>

/* The interface that this file declares. A plug-in of another version is refused. */
#define KVSIM_PLUGIN_VERSION 1

#ifdef __cplusplus
extern "C" {
#endif

/* What a policy sees of one step: the cache before the eviction, never the future. Arrays hold
 * until the call returns and are contiguous, one row per token or query. */
typedef struct kvsim_step {
  int32_t index;               /* t, counted from 0; token t has just arrived */
  int32_t num_tokens;          /* in the cache, token t included */
  int32_t overflow;            /* tokens to evict after this step; pruning may evict more */
  int32_t head_dim;            /* numbers in a key and in a query */
  int32_t value_dim;           /* numbers in a value */
  int32_t num_queries;         /* rows of `queries`: query heads of this KV head */
  const int32_t* tokens;       /* [num_tokens], text positions, ascending; the last one is t */
  const float* attention;      /* [num_tokens], of step t over `tokens`: the mean over the query
                                * heads of their softmax over `tokens` and a learned sink */
  const float* full_attention; /* [num_tokens], with the softmax over all visible tokens; NULL
                                * unless sees_full_attention */
  const float* keys;           /* [num_tokens, head_dim]; NULL unless sees_keys */
  const float* values;         /* [num_tokens, value_dim]; NULL unless sees_values */
  const float* queries;        /* [num_queries, head_dim], of step t; NULL unless sees_queries */
  const int32_t* selected;     /* [num_selected], the tokens up to t that the model itself selected,
                                * ascending: it attends to no others; NULL: it does not select */
  int32_t num_selected;
} kvsim_step;

/* Updates the scores after the attention of one step; the engine then evicts the tokens with the
 * lowest ones. `scores` is parallel to step->tokens: what was written at the step before, 0 for the
 * token that has just arrived. No score may be NaN. `state` is what create() returned, else NULL.
 * Returns 0; any other number ends the replay with an error that names it. */
typedef int32_t (*kvsim_update)(const kvsim_step* step, double* scores, void* state);

/* The heads for which one state decides together. */
enum {
  KVSIM_SCOPE_HEAD = 0,  /* one KV head */
  KVSIM_SCOPE_LAYER = 1, /* all KV heads of a layer; keys, values and queries of the first */
  KVSIM_SCOPE_MODEL = 2  /* all layers, updated layer by layer at every step */
};

/* What the engine asks a policy before the first step. Flags are 0 or 1. */
typedef struct kvsim_rules {
  int32_t protect_first;       /* this many first tokens are never evicted; at first 0 */
  int32_t protect_newest;      /* this many newest tokens are never evicted; at first 0 */
  int32_t drop;                /* tokens evicted at once; at first 1 */
  int32_t bounded;             /* 0: the budget does not apply; at first 1 */
  int32_t prunes;              /* tokens scored -INFINITY leave even while the budget holds */
  int32_t selects;             /* chooses what to attend to and evicts nothing: update() comes
                                * before the attention of the step and sees that over all tokens,
                                * as with sees_full_attention; the cache is not bounded */
  int32_t prompt_only;         /* scores the prompt alone: for prefill mode without evictions */
  int32_t scope;               /* KVSIM_SCOPE_...; at first KVSIM_SCOPE_HEAD */
  int32_t sees_full_attention; /* fill kvsim_step.full_attention */
  int32_t sees_keys;           /* fill kvsim_step.keys */
  int32_t sees_values;         /* fill kvsim_step.values */
  int32_t sees_queries;        /* fill kvsim_step.queries */
} kvsim_rules;

enum {
  KVSIM_INTEGER = 0, /* a whole number from lowest to highest */
  KVSIM_NUMBER = 1,  /* a number from lowest to highest */
  KVSIM_AMOUNT = 2,  /* tokens as in "16", or a share of the budget as in "0.5"; the plug-in gets
                      * tokens */
  KVSIM_CHOICE = 3   /* one of `choices`; the plug-in gets its index */
};

/* A parameter, which users set in a spec, as in "mine:decay=0.9". The plug-in's functions get the
 * values of all as doubles, in the order of their declaration. */
typedef struct kvsim_parameter {
  const char* name;
  int32_t type;               /* KVSIM_INTEGER, ... */
  const char* initial;        /* the default, as a user would write it; NULL: the first choice */
  double lowest;              /* of an integer or a number */
  double highest;             /* of an integer or a number */
  const char* const* choices; /* of a choice: names, then NULL */
  const char* help;           /* one line */
} kvsim_parameter;

typedef struct kvsim_policy {
  int32_t version; /* KVSIM_PLUGIN_VERSION */
  int32_t size;    /* sizeof(kvsim_policy) */

  const char* name;        /* lower-case letters, digits, '-' and '_' */
  const char* keeps;       /* what stays in the cache, in one line */
  const char* source;      /* paper and section; NULL: none */
  const char* sees;        /* which data of a step it reads; NULL: not said */
  const char* differences; /* from the paper or its code; NULL: none */

  const kvsim_parameter* parameters; /* [num_parameters] */
  int32_t num_parameters;

  /* Whether its caches nest, with any parameters: at every step the tokens kept at one budget are
   * among those kept at any larger one. Then `kvsim curve` takes it. Caches nest if neither the
   * scores nor the protected tokens depend on the budget or on what the cache holds. */
  int32_t nests;

  /* Changes what differs from the rules' first values. Returns 0; any other number refuses the
   * parameters. Many threads may call it at once. NULL: the first values. */
  int32_t (*rules)(const double* parameters, int32_t budget, kvsim_rules* rules);

  /* Makes the state of one replay; `seed` differs from replay to replay. NULL is an error. Replays
   * run in parallel, each on one thread at a time. NULL in place of the function: no state. */
  void* (*create)(const double* parameters, int32_t budget, uint64_t seed);

  kvsim_update update;

  /* Frees what create() made. May be NULL. */
  void (*destroy)(void* state);
} kvsim_policy;

/* A recorded KV head with the query heads that read it. All arrays are contiguous and hold until
 * the call returns. */
typedef struct kvsim_unit {
  const char* sequence; /* its name */
  int32_t layer;
  int32_t kv_head;
  int32_t num_tokens;
  int32_t num_queries;         /* query heads */
  int32_t head_dim;            /* numbers in a key and in a query */
  int32_t value_dim;           /* numbers in a value */
  int32_t prompt_length;       /* tokens; 0: the sequence has no prompt */
  float scale;                 /* logit = scale * <query, key> */
  float logit_softcap;         /* logit becomes cap * tanh(logit / cap); 0: none */
  int32_t sliding_window;      /* token j is visible at step t while t - j < window; 0: none */
  const float* const* queries; /* [num_queries], each [num_tokens, head_dim] */
  const float* keys;           /* [num_tokens, head_dim], after positional rotation */
  const float* values;         /* [num_tokens, value_dim] */
  const int32_t* token_ids;    /* [num_tokens]; NULL if the trace has none */
  int32_t attention_chunk;     /* and while j / chunk == t / chunk; 0: none */
  const float* sink_logits;    /* [num_queries]: takes attention, gives no value; NULL: none */
  const int32_t* selected;     /* [num_tokens, most_selected]: per step the tokens that the model
                                * itself selected, ascending, -1 behind; the step attends to no
                                * others; NULL: to all that are visible */
  int32_t most_selected;
} kvsim_unit;

typedef struct kvsim_rows kvsim_rows;

/* Adds a row about a query head, 0-based within the unit. `values` has one number per column of the
 * analysis; NaN is stored as NULL. Returns 0, or another number after an error, which ends the
 * analysis. */
typedef int32_t (*kvsim_add_row)(kvsim_rows* rows, int32_t query, const double* values);

/* A column of the analysis' table. The columns that name the trace, the sequence, the layer and the
 * heads come in addition. */
typedef struct kvsim_column {
  const char* name;    /* lower-case letters, digits and '_' */
  const char* meaning; /* definition, with unit and range */
  int32_t is_integer;  /* 1: whole numbers */
  int32_t is_key;      /* 1: tells rows of one query head apart; such columns come first */
} kvsim_column;

typedef struct kvsim_analysis {
  int32_t version; /* KVSIM_PLUGIN_VERSION */
  int32_t size;    /* sizeof(kvsim_analysis) */

  const char* name;   /* lower-case letters, digits, '-' and '_'; the table has '_' for '-' */
  const char* shows;  /* what a row is, in one line */
  const char* source; /* paper and section; NULL: none */

  const kvsim_parameter* parameters; /* [num_parameters]; amounts are not for analyses */
  int32_t num_parameters;

  const kvsim_column* columns; /* [num_columns] */
  int32_t num_columns;

  /* Adds the rows of one unit. Returns 0; any other number ends the analysis with an error that
   * names it. Many threads may call it at once. */
  int32_t (*analyze)(const kvsim_unit* unit, const double* parameters, kvsim_add_row add_row,
                     kvsim_rows* rows);
} kvsim_analysis;

typedef struct kvsim_host {
  int32_t version;   /* of the program that loads the plug-in: its KVSIM_PLUGIN_VERSION */
  int32_t size;      /* sizeof(kvsim_host) */
  const char* error; /* why the last call failed; "" if none did */
  void* context;     /* the host's own */

  /* Both return 0, or another number with `error` set; what was wrong also ends the loading. They
   * copy the descriptor. */
  int32_t (*register_policy)(const struct kvsim_host* host, const kvsim_policy* policy);
  int32_t (*register_analysis)(const struct kvsim_host* host, const kvsim_analysis* analysis);
} kvsim_host;

#if defined(__GNUC__)
#define KVSIM_PLUGIN_EXPORT __attribute__((visibility("default")))
#else
#define KVSIM_PLUGIN_EXPORT
#endif

/* The plug-in defines it: registers all that it has, and returns 0. Any other number refuses the
 * host. */
KVSIM_PLUGIN_EXPORT int kvsim_plugin(const kvsim_host* host);

#ifdef __cplusplus
}
#endif

#endif
