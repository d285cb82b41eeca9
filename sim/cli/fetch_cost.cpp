#include "sim/cli/fetch_cost.h"

namespace kvsim::cli {

std::vector<Quantity> fetch_quantities(const Deployment& at, const Workload& work,
                                       const FetchMean& mean, std::optional<std::int64_t> largest) {
  const TwoTiers& tiers = mean.tiers;
  const CostEstimate time = estimate(at, tiers, work);
  const Busy step = decode_step(at, tiers, work.batch);
  const double per_token = kv_bytes_per_token(at.model, at.kv_bits);
  const auto sequences = static_cast<double>(work.batch);
  return {{"select", mean.select},
          {"resident_request", mean.resident},
          {"replace", mean.replace},
          {"mode", mean.mode},
          {"model", at.model.name},
          {"device", at.device.name},
          {"devices", whole(at.devices)},
          {"prompt", whole(work.prompt)},
          {"generate", whole(work.generate)},
          {"offloaded_weights", at.offloaded_weights},
          {"weight_bytes", whole(weight_bytes(at))},
          {"kv_bytes_per_token", whole(per_token)},
          {"resident_tokens", tiers.resident},
          {"attended_tokens", tiers.attended},
          {"fetched_tokens", tiers.fetched},
          {"fetched_bytes", whole(sequences * tiers.fetched * per_token)},
          {"largest_batch", largest ? Value(*largest) : std::monostate()},
          {"batch", work.batch},
          {"fits", !largest || work.batch <= *largest ? "yes" : "no"},
          {"device_bytes", whole(sequences * device_bytes(at, tiers))},
          {"host_bytes", whole(sequences * (work.prompt + work.generate) * per_token)},
          {"prompt_seconds", time.prompt_seconds},
          {"decode_seconds", time.decode_seconds},
          {"last_step_seconds", step.seconds()},
          {"last_step_bound", bound_name(step.bound())},
          {"tokens_per_second", time.tokens_per_second}};
}

}  // namespace kvsim::cli
