#include "policies/registry/allocation.h"

#include <catch2/catch.hpp>

#include "policies/registry/spec.h"
#include "sim/base/errors.h"

namespace kvsim::allocation_test {

TEST_CASE("a split with parameters stands after the @ with all their values", "[policies]") {
  CHECK(Spec("window@cake").text() == "window@cake:tau1=1,tau2=1");
  CHECK(Spec("window@cake:tau2=0.4").text() == "window@cake:tau1=1,tau2=0.4");
  CHECK(Spec("window@file:a/b.npy").text() == "window@file:file=a/b.npy,sha256=");
  CHECK(Spec("window@file:file=a/b.npy").text() == Spec("window@file:a/b.npy").text());
  CHECK(Spec("window@headkv:s.json,beta=2").text() == "window@headkv:file=s.json,sha256=,beta=2");
  // The folders of DuoAttention's patterns have a '=' in their names.
  CHECK(Spec("window@duo:m/lr=0.02-reg=0.05/heads.tsv,recent=16").text() ==
        "window@duo:file=m/lr=0.02-reg=0.05/heads.tsv,sha256=,sinks=128,recent=16");
  for (const char* text : {"tova@cake:tau1=2", "h2o+quant@file:x.npy", "lru@duo:x.tsv"}) {
    CHECK(Spec(Spec(text).text()).text() == Spec(text).text());
  }
  CHECK(Spec("window").allocated(AllocationSpec("file:x.npy")).text() ==
        Spec("window@file:x.npy").text());
  CHECK(Spec("window@file:x.npy").with_allocation_file("12ab").text() ==
        "window@file:file=x.npy,sha256=12ab");
}

TEST_CASE("duo is the sink policy under DuoAttention's split, with its sinks", "[policies]") {
  CHECK(Spec("duo:file=heads.tsv").text() ==
        Spec("sink:sinks=128@duo:heads.tsv,sinks=128,recent=256").text());
  CHECK(Spec("DuoAttention:file=h.tsv,sinks=4,recent=8,positions=slot+quant").text() ==
        Spec("sink:sinks=4,positions=slot+quant@duo:h.tsv,sinks=4,recent=8").text());
  CHECK_THROWS_WITH(Spec("duo"), Catch::Contains("@duo:PATH"));
  CHECK_THROWS_WITH(Spec("duo:file=h.tsv@pyramid"), Catch::Contains("sink@duo"));
}

TEST_CASE("a split that cannot be meant is refused with a hint", "[policies]") {
  const auto refused = [](const char* text, const char* hint) {
    CAPTURE(text);
    CHECK_THROWS_AS(Spec(text), UsageError);
    CHECK_THROWS_WITH(Spec(text), Catch::Contains(hint));
  };
  refused("window@file", "@file:PATH");
  refused("window@headkv:beta=2", "@headkv:PATH");
  refused("window@file:", "@file:PATH");
  refused("window@fil:x.npy", "'file'");
  refused("window@file:fil=x", "'file'");
  refused("window@file:x.npy,file=y.npy", "given twice");
  refused("window@file:a@b.npy", "rename");
  refused("window@file:a+b.npy", "rename");
  refused("window@pyramid:beta=20", "no parameters");
  refused("window@cake:tau1=0", "tau1");
  refused("window@headkv:x.json,beta=0.5", "beta");
}

TEST_CASE("the code of a split is one of its parts, whatever its file", "[policies]") {
  CHECK(Spec("lru@file:x.npy").code() == Spec("lru@pyramid").code());
  CHECK(Spec("lru@file:x.npy").code() != Spec("lru").code());
  CHECK_FALSE(Spec("lru@file:x.npy").nests());
}

}  // namespace kvsim::allocation_test
