/* A plug-in with the fault that KVSIM_TEST_FAULT names. */
#include <kvsim/plugin.h>
#include <stdlib.h>
#include <string.h>

static int has(const char* fault) {
  const char* wanted = getenv("KVSIM_TEST_FAULT");
  return wanted != NULL && strcmp(wanted, fault) == 0;
}

static int32_t update(const kvsim_step* step, double* scores, void* state) {
  (void)step, (void)scores, (void)state;
  return 0;
}

static int32_t analyze(const kvsim_unit* unit, const double* values, kvsim_add_row add_row,
                       kvsim_rows* rows) {
  (void)unit, (void)values, (void)add_row, (void)rows;
  return 0;
}

static int32_t register_policy(const kvsim_host* host) {
  const char* const choices[] = {"a", has("choice") ? "b,c" : "b", NULL};
  const char* const none[] = {NULL};
  kvsim_parameter parameters[] = {{.name = has("parameter name") ? "Decay" : "decay",
                                   .type = has("type") ? 17 : KVSIM_NUMBER,
                                   .initial = has("initial") ? "2" : "1",
                                   .lowest = has("range") ? 2 : 0,
                                   .highest = 1,
                                   .help = has("help") ? NULL : "a number"},
                                  {.name = has("twice") ? "decay" : "mode",
                                   .type = KVSIM_CHOICE,
                                   .choices = has("no choice") ? none : choices,
                                   .help = "a choice"}};
  kvsim_policy policy = {.version = has("version") ? 7 : KVSIM_PLUGIN_VERSION,
                         .size = has("size") ? 16 : sizeof policy,
                         .name = has("name") ? "My Policy" : "broken",
                         .keeps = has("lines") ? "one\ntwo" : "nothing",
                         .parameters = has("null") ? NULL : parameters,
                         .num_parameters = 2,
                         .update = has("update") ? NULL : update};
  if (has("built in")) policy.name = "h2o";
  if (has("alias")) policy.name = "all";
  return host->register_policy(host, &policy);
}

static int32_t register_analysis(const kvsim_host* host) {
  const kvsim_column columns[] = {{.name = has("column") ? "trace_id"
                                           : has("sql")  ? "order"
                                                         : "share",
                                   .meaning = "a number"},
                                  {.name = "place", .meaning = "a number", .is_key = has("key")}};
  kvsim_analysis analysis = {.version = KVSIM_PLUGIN_VERSION,
                             .size = sizeof analysis,
                             .name = has("table") ? "replay" : "broken-analysis",
                             .shows = "nothing",
                             .columns = columns,
                             .num_columns = has("no column") ? 0 : 2,
                             .analyze = analyze};
  if (has("analysis")) analysis.name = "sparsity";
  return host->register_analysis(host, &analysis);
}

int kvsim_plugin(const kvsim_host* host) {
  if (has("nothing")) return 0;
  if (has("refusal")) return 5;
  if (has("ignored")) {
    setenv("KVSIM_TEST_FAULT", "version", 1);
    register_policy(host);
    return 0; /* the error counts nevertheless */
  }
  if (register_policy(host) != 0) return 1;
  return register_analysis(host);
}
