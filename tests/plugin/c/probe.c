/* Policies and an analysis that tell a test what they get. */
#include <kvsim/plugin.h>
#include <math.h>
#include <stdlib.h>

static const char* const orders[] = {"oldest", "newest", "drawn", NULL};

static const kvsim_parameter parameters[] = {
    {.name = "order", .type = KVSIM_CHOICE, .choices = orders, .help = "what leaves first"},
    {.name = "length",
     .type = KVSIM_INTEGER,
     .initial = "3",
     .lowest = -5,
     .highest = 9,
     .help = "a number"},
    {.name = "share", .type = KVSIM_AMOUNT, .initial = "0.5", .help = "tokens"}};

/* The number that ends the replay is made of the parameters: 1000 order + 100 share + length. */
static void* create_failing(const double* values, int32_t budget, uint64_t seed) {
  (void)budget, (void)seed;
  int32_t* code = malloc(sizeof *code);
  *code = (int32_t)(1000 * values[0] + 100 * values[2] + values[1]);
  return code;
}

static int32_t fail(const kvsim_step* step, double* scores, void* state) {
  (void)step, (void)scores;
  return *(const int32_t*)state;
}

/* A state that only one replay may use, step by step. */
typedef struct {
  uint64_t random;
  int32_t next_step;
} replay;

static void* create_replay(const double* values, int32_t budget, uint64_t seed) {
  (void)values, (void)budget;
  replay* made = malloc(sizeof *made);
  made->random = seed | 1;
  made->next_step = 0;
  return made;
}

static int32_t draw(const kvsim_step* step, double* scores, void* state) {
  replay* now = state;
  if (step->index != now->next_step++) return 99;
  now->random = now->random * 6364136223846793005u + 1442695040888963407u;
  scores[step->num_tokens - 1] = (double)(now->random >> 33);
  return 0;
}

static int32_t rules_of_vectors(const double* values, int32_t budget, kvsim_rules* rules) {
  (void)values, (void)budget;
  rules->sees_keys = rules->sees_values = rules->sees_queries = rules->sees_full_attention = 1;
  rules->protect_first = 2;
  return 0;
}

static double dot(const float* a, const float* b, int32_t count) {
  double sum = 0;
  for (int32_t i = 0; i < count; ++i) sum += (double)a[i] * b[i];
  return sum;
}

/* The attention that it computes from keys and queries itself is nearly that of the engine, for a
 * scale of 1 / sqrt(head_dim). */
static int32_t check_vectors(const kvsim_step* step, double* scores, void* state) {
  (void)state;
  const int32_t dim = step->head_dim;
  double* mine = calloc((size_t)step->num_tokens, sizeof *mine);
  for (int32_t q = 0; q < step->num_queries; ++q) {
    double sum = 0;
    for (int32_t i = 0; i < step->num_tokens; ++i) {
      sum += exp(dot(step->queries + q * dim, step->keys + i * dim, dim) / sqrt(dim));
    }
    for (int32_t i = 0; i < step->num_tokens; ++i) {
      mine[i] += exp(dot(step->queries + q * dim, step->keys + i * dim, dim) / sqrt(dim)) / sum /
                 step->num_queries;
    }
  }
  int32_t wrong = 0;
  for (int32_t i = 0; i < step->num_tokens; ++i) {
    if (fabs(mine[i] - step->attention[i]) > 1e-4) wrong = 1;
    if (step->full_attention[i] > step->attention[i] + 1e-4f) wrong = 2;
    const float* value = step->values + i * step->value_dim;
    scores[i] += step->attention[i] * sqrt(dot(value, value, step->value_dim));
  }
  free(mine);
  return wrong;
}

/* Scores by position alone, so that caches nest. */
static int32_t keep_newest(const kvsim_step* step, double* scores, void* state) {
  (void)state;
  scores[step->num_tokens - 1] = step->index;
  return 0;
}

static const char* const faults[] = {"none", "query", "whole", "key", "twice", "returns", NULL};
static const kvsim_parameter fault[] = {
    {.name = "fault", .type = KVSIM_CHOICE, .choices = faults, .help = "what is wrong"}};
static const kvsim_column columns[] = {
    {.name = "place", .meaning = "a number", .is_integer = 1, .is_key = 1},
    {.name = "share", .meaning = "another number"}};

static int32_t analyze(const kvsim_unit* unit, const double* values, kvsim_add_row add_row,
                       kvsim_rows* rows) {
  const int32_t wrong = (int32_t)values[0];
  const int32_t last_step = (unit->num_tokens - 1) * unit->most_selected;
  const double selected = unit->selected == NULL ? NAN : unit->selected[last_step];
  const double row[] = {wrong == 2 ? 0.5 : wrong == 3 ? NAN : unit->num_tokens, selected};
  add_row(rows, wrong == 1 ? unit->num_queries : unit->num_queries - 1, row);
  if (wrong == 4) add_row(rows, unit->num_queries - 1, row);
  return wrong == 5 ? 12 : 0;
}

int kvsim_plugin(const kvsim_host* host) {
  kvsim_policy policy = {.version = KVSIM_PLUGIN_VERSION,
                         .size = sizeof policy,
                         .name = "failing",
                         .keeps = "nothing that matters",
                         .parameters = parameters,
                         .num_parameters = 3,
                         .create = create_failing,
                         .update = fail,
                         .destroy = free};
  if (host->register_policy(host, &policy) != 0) return 1;
  policy.name = "drawn";
  policy.parameters = NULL;
  policy.num_parameters = 0;
  policy.create = create_replay;
  policy.update = draw;
  if (host->register_policy(host, &policy) != 0) return 1;
  policy.name = "value-attention";
  policy.rules = rules_of_vectors;
  policy.create = NULL;
  policy.update = check_vectors;
  policy.destroy = NULL;
  if (host->register_policy(host, &policy) != 0) return 1;
  policy.name = "newest";
  policy.rules = NULL;
  policy.update = keep_newest;
  policy.nests = 1;
  if (host->register_policy(host, &policy) != 0) return 1;
  const kvsim_analysis analysis = {.version = KVSIM_PLUGIN_VERSION,
                                   .size = sizeof analysis,
                                   .name = "probe-rows",
                                   .shows = "a row for the last query head",
                                   .source = "a test",
                                   .parameters = fault,
                                   .num_parameters = 1,
                                   .columns = columns,
                                   .num_columns = 2,
                                   .analyze = analyze};
  return host->register_analysis(host, &analysis);
}
