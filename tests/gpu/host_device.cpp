#include "tests/gpu/host_device.h"

#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <vector>

namespace kvsim::gpu_test {
namespace {

/// The operations of gpu/kernels/thread_block.h, on one thread.
class HostBlock {
 public:
  static constexpr bool kFindsRanked = true;

  explicit HostBlock(std::size_t on_chip) : on_chip_(on_chip) {}

  template <class Work>
  void each(int count, Work work) {
    for (int i = count; i-- > 0;) work(i);
  }

  template <class Work>
  void each_own(int count, Work work) {
    each(count, work);
  }

  template <class Work>
  void on_owner(int, Work work) {
    work();
  }

  template <class Work>
  void once(Work work) {
    work();
  }

  template <class T, class Value, class Combine>
  T reduce(int count, T identity, Value value, Combine combine) {
    std::vector<T> items;
    for (int i = 0; i < count; ++i) items.push_back(value(i));
    while (items.size() > 1) {
      if (items.size() % 2 != 0) items.push_back(identity);
      for (std::size_t i = 0; i < items.size() / 2; ++i) {
        items[i] = combine(items[i], items[items.size() - 1 - i]);
      }
      items.resize(items.size() / 2);
    }
    return items.empty() ? identity : items.front();
  }

  template <class Holds, class Take>
  int select(int count, Holds holds, Take take) {
    std::vector<int> held;
    for (int i = 0; i < count; ++i) {
      if (holds(i)) held.push_back(i);
    }
    for (int place = static_cast<int>(held.size()); place-- > 0;) take(held[place], place);
    return static_cast<int>(held.size());
  }

  template <class Bin>
  gpu::RankedBin find_ranked(int count, int rank, Bin bin) {
    std::vector<int> bins;
    for (int i = count; i-- > 0;) {
      if (const int of_item = bin(i); of_item >= 0) bins.push_back(of_item);
    }
    std::sort(bins.begin(), bins.end(), std::greater<>());
    const int found = bins.at(static_cast<std::size_t>(rank));
    const auto above = std::find(bins.begin(), bins.end(), found) - bins.begin();
    return {found, static_cast<int>(above)};
  }

  void* on_chip(std::size_t bytes) {
    if (bytes > on_chip_) return nullptr;
    memory_.assign(bytes / sizeof(double) + 1, std::numeric_limits<double>::quiet_NaN());
    return memory_.data();
  }

  class Tile {
   public:
    explicit Tile(HostBlock&) {}

    template <class Operands>
    void add_products(const Operands& operands) {
      std::array<double, gpu::kTileDims> of_term;
      for (int term = operands.num_terms(); term-- > 0;) {
        const std::int32_t entry = operands.entry(term);
        const std::int32_t last_without = operands.last_without(entry);
        for (int dim = 0; dim < gpu::kTileDims; ++dim) of_term[dim] = operands.value(entry, dim);
        for (int row = 0; row < gpu::kTileRows; ++row) {
          const double weight =
              operands.factor(row, entry, last_without) * operands.weight(row, entry);
          double* sum = sum_.data() + row * gpu::kTileDims;
          for (int dim = 0; dim < gpu::kTileDims; ++dim) sum[dim] += weight * of_term[dim];
        }
      }
    }

    template <class Visit>
    void for_each(Visit visit) {
      for (int row = 0; row < gpu::kTileRows; ++row) {
        for (int dim = 0; dim < gpu::kTileDims; ++dim) {
          visit(row, dim, sum_[row * gpu::kTileDims + dim]);
        }
      }
    }

   private:
    std::array<double, gpu::kTileRows* gpu::kTileDims> sum_ = {};
  };

 private:
  std::size_t on_chip_;
  std::vector<double> memory_;
};

float float_of(std::uint16_t bits) {
  return static_cast<float>(Eigen::numext::bit_cast<Eigen::half>(bits));
}

float truncated(double x) {
  const auto nearest = static_cast<float>(x);
  return std::fabs(nearest) > std::fabs(x) ? std::nextafter(nearest, 0.F) : nearest;
}

/// Matrix units add some products at a time, in an order and with a rounding that are their own.
/// Here it is 16 of them, from the last to the first, and sums are cut off to fp32, which is worse
/// than rounding.
float half_product(const std::uint16_t* a, const std::uint16_t* b, std::size_t count) {
  float sum = 0;
  for (std::size_t end = count; end > 0;) {
    double part = 0;
    const std::size_t first = end > 16 ? end - 16 : 0;
    while (end > first) {
      --end;
      part += static_cast<double>(float_of(a[end]) * float_of(b[end]));
    }
    sum = truncated(sum + part);
  }
  return sum;
}

}  // namespace

std::shared_ptr<std::byte> HostDevice::allocate(std::size_t bytes) {
  if (bytes > free_bytes_) throw gpu::OutOfDeviceMemory("no room");
  ++num_allocations_;
  constexpr std::size_t kAlignment = 256;
  auto* memory = static_cast<std::byte*>(::operator new(bytes, std::align_val_t(kAlignment)));
  std::memset(memory, 0xff, bytes);  // NaN, -1
  return {memory, [](std::byte* p) { ::operator delete(p, std::align_val_t(kAlignment)); }};
}

std::shared_ptr<std::byte> HostDevice::allocate_host(std::size_t bytes) {
  const auto release = [this](std::byte* memory) {
    page_locked_.erase(memory);
    delete[] memory;
  };
  const std::shared_ptr<std::byte> memory(new std::byte[bytes], release);
  page_locked_[memory.get()] = bytes;
  return memory;
}

void HostDevice::upload(const void* host, std::size_t bytes, void* to) {
  std::memcpy(to, host, bytes);
}

void HostDevice::download(const void* from, std::size_t bytes, void* host) {
  const auto* const to = static_cast<const std::byte*>(host);
  auto place = page_locked_.upper_bound(to);
  const bool is_page_locked =
      place != page_locked_.begin() && (--place, to + bytes <= place->first + place->second);
  if (!is_page_locked) pageable_bytes_ += bytes;
  std::memcpy(host, from, bytes);
}

void HostDevice::download_rows(const void* from, std::size_t stride, std::size_t bytes,
                               std::size_t rows, void* host) {
  for (std::size_t row = 0; row < rows; ++row) {
    std::memcpy(static_cast<std::byte*>(host) + row * bytes,
                static_cast<const std::byte*>(from) + row * stride, bytes);
  }
}

void HostDevice::multiply_keys(const gpu::Batch& batch) {
  const auto dim = static_cast<std::size_t>(batch.shape.head_dim);
  for (int unit = 0; unit < batch.num_units; ++unit) {
    for (int row = 0; row < batch.rows(); ++row) {
      const std::size_t query = batch.text_row(unit, row) * dim;
      for (int token = 0; token < batch.width(); ++token) {
        const std::size_t key = (batch.tokens_of(unit) + token) * dim;
        batch.logit[batch.block_row(unit, row) * batch.shape.num_tokens + token] =
            batch.shape.has_half_vectors
                ? half_product(batch.half_query + query, batch.half_key + key, dim)
                : std::inner_product(batch.query + query, batch.query + query + dim,
                                     batch.key + key, 0.F);
      }
    }
  }
}

void HostDevice::run(gpu::Kernel kernel, const gpu::Batch& batch) {
  for (int index = num_thread_blocks(kernel, batch); index-- > 0;) {
    run_on_host(kernel, batch, on_chip_, index);
  }
}

void run_on_host(gpu::Kernel kernel, const gpu::Batch& batch, std::size_t on_chip, int index) {
  gpu::dispatch(kernel, [&]<gpu::Kernel kKernel>() {
    HostBlock block(on_chip);
    gpu::run_thread_block<kKernel>(block, batch, index);
  });
}

}  // namespace kvsim::gpu_test
