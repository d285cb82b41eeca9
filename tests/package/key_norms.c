/* A plug-in with an analysis: how long keys are, in a table of its own. */
#include <kvsim/plugin.h>
#include <math.h>
#include <stddef.h>

enum { FROM };

static const kvsim_parameter parameters[] = {{.name = "from",
                                              .type = KVSIM_INTEGER,
                                              .initial = "0",
                                              .lowest = 0,
                                              .highest = 1000000,
                                              .help = "the first token that counts"}};

static const kvsim_column columns[] = {
    {.name = "tokens", .meaning = "keys that count", .is_integer = 1},
    {.name = "mean_norm", .meaning = "mean Euclidean norm of the keys; NULL: there are none"}};

/* One row for the whole unit, under its first query head. */
static int32_t analyze(const kvsim_unit* unit, const double* values, kvsim_add_row add_row,
                       kvsim_rows* rows) {
  const int32_t first = (int32_t)values[FROM];
  int32_t tokens = 0;
  double sum = 0;
  for (int32_t token = first; token < unit->num_tokens; ++token, ++tokens) {
    const float* key = unit->keys + (size_t)token * unit->head_dim;
    double square = 0;
    for (int32_t i = 0; i < unit->head_dim; ++i) square += (double)key[i] * key[i];
    sum += sqrt(square);
  }
  const double row[] = {tokens, tokens > 0 ? sum / tokens : NAN};
  return add_row(rows, 0, row);
}

int kvsim_plugin(const kvsim_host* host) {
  const kvsim_analysis analysis = {.version = KVSIM_PLUGIN_VERSION,
                                   .size = sizeof analysis,
                                   .name = "key-norms",
                                   .shows = "the keys of a KV head",
                                   .parameters = parameters,
                                   .num_parameters = 1,
                                   .columns = columns,
                                   .num_columns = 2,
                                   .analyze = analyze};
  return host->register_analysis(host, &analysis);
}
