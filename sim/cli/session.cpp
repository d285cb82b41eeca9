#include "sim/cli/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "sim/base/printable.h"
#include "sim/cli/interrupt.h"
#include "sim/cli/progress.h"
#include "sim/sweep/memory.h"
#include "sim/sweep/sweep_jobs.h"

namespace kvsim::cli {
namespace {

void announce(const SweepPlan& plan, const std::vector<SweepJob>& jobs, const Backend& backend) {
  const std::size_t done = plan.num_replays() - plan.num_remaining();
  std::cerr << fmt::format(
      "kvsim: {} of {}, {} done before; {}\n", counted(plan.num_replays(), "replay"),
      counted(plan.units.size(), "unit"), done,
      memory_note(std::max(memory_bytes(plan, jobs, backend), table_memory(plan.num_replays())),
                  plan.request.threads));
  const std::vector<std::string> on_cpu = policies_on_cpu(plan, backend);
  if (on_cpu.empty()) return;
  std::cerr << fmt::format("kvsim: replayed on the CPU, which {} does not: {}\n", backend.device(),
                           fmt::join(on_cpu, "; "));
}

}  // namespace

po::options_description session_options() {
  po::options_description options;
  po::options_description talk("What to say");
  talk.add_options()("quiet,q", "no progress, no notes")("verbose,v", "a line per finished unit");
  options.add(selection_options()).add(replay_options()).add(run_options()).add(plugin_options());
  options.add(talk);
  return options;
}

std::string memory_note(std::size_t bytes, int threads) {
  return fmt::format("about {} MiB of memory on {}", (own_memory() + bytes + (1 << 19)) >> 20,
                     counted(static_cast<std::size_t>(threads), "thread"));
}

std::string counted(std::size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

void print_notes(const std::vector<std::string>& notes, const po::variables_map& values) {
  if (values.count("quiet") > 0) return;
  for (const std::string& note : notes) {
    if (!note.empty()) std::cerr << fmt::format("kvsim: {}\n", note);
  }
}

void write_shard(std::ostream& out, const SweepPlan& plan, const std::string& file) {
  const Shard& shard = plan.request.shard;
  out << fmt::format("shard {} of study {}: {} in {}; kvsim merge joins the {} parts\n",
                     shard_name(shard), plan.study, counted(plan.units.size(), "unit"),
                     printable(file), shard.count);
}

std::vector<Spec> policies_from(const Verb& verb, const po::variables_map& values,
                                SweepRequest& request) {
  PolicyList list = policies_for(request, all_from(verb, values, "policies"),
                                 allocation_of(options_from(values)));
  print_notes(list.notes, values);
  return std::move(list.policies);
}

std::vector<Spec> specs_from(const std::vector<std::string>& lists, const po::variables_map& values,
                             const NamedSpecs& named) {
  PolicyList found = policies_in(lists, allocation_of(options_from(values)), named);
  print_notes(found.notes, values);
  return std::move(found.policies);
}

void run_plan(const SweepPlan& plan, const Backend& backend, const po::variables_map& values,
              const UnitFinished& finished) {
  const std::atomic<bool>& interrupted = catch_interrupts();
  const std::vector<SweepJob> jobs = jobs_of(plan);
  if (values.count("quiet") == 0) announce(plan, jobs, backend);
  Progress progress(plan.num_replays(), "replays", values,
                    plan.num_replays() - plan.num_remaining());
  try {
    run_sweep(plan, jobs, backend, interrupted,
              [&](const PlannedUnit& unit, std::vector<Outcome> outcomes) {
                const std::size_t count = outcomes.size();
                finished(unit, std::move(outcomes));
                progress.advance(unit.unit.name, count);
              });
  } catch (const Interrupted&) {
    throw Interrupted("interrupted after " + progress.state());
  }
}

}  // namespace kvsim::cli
