/* A plug-in with a policy: H2O (Zhang et al. 2023), whose sums forget. With decay=1 it is h2o. */
#include <kvsim/plugin.h>
#include <stdlib.h>

/* The place of each parameter among the values that functions get. */
enum { RECENT, DECAY };

static const kvsim_parameter parameters[] = {{.name = "recent",
                                              .type = KVSIM_AMOUNT,
                                              .initial = "0.5",
                                              .help = "newest tokens that always stay"},
                                             {.name = "decay",
                                              .type = KVSIM_NUMBER,
                                              .initial = "0.9",
                                              .lowest = 0,
                                              .highest = 1,
                                              .help = "factor of the earlier sum at every step"}};

static int32_t rules(const double* values, int32_t budget, kvsim_rules* rules) {
  (void)budget;
  rules->protect_newest = (int32_t)values[RECENT];
  return 0;
}

/* The state of one replay: the decay. */
static void* create(const double* values, int32_t budget, uint64_t seed) {
  (void)budget, (void)seed;
  double* decay = malloc(sizeof *decay);
  if (decay != NULL) *decay = values[DECAY];
  return decay;
}

static int32_t update(const kvsim_step* step, double* scores, void* state) {
  const double decay = *(const double*)state;
  for (int32_t i = 0; i < step->num_tokens; ++i) {
    scores[i] = decay * scores[i] + step->attention[i];
  }
  return 0;
}

int kvsim_plugin(const kvsim_host* host) {
  const kvsim_policy policy = {.version = KVSIM_PLUGIN_VERSION,
                               .size = sizeof policy,
                               .name = "decayed-attention",
                               .keeps = "recent tokens and those with the most decayed attention",
                               .source = "H2O Algorithm 2, with a decay",
                               .sees = "attention over the cache",
                               .parameters = parameters,
                               .num_parameters = 2,
                               .rules = rules,
                               .create = create,
                               .update = update,
                               .destroy = free};
  return host->register_policy(host, &policy);
}
