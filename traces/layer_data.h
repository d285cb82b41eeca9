#pragma once

#include <optional>
#include <vector>

#include "traces/hdf5/group_reader.h"
#include "traces/head_dataset.h"
#include "traces/trace.h"

namespace kvsim {

/// The datasets of a layer, opened and checked for type and shape.
struct LayerData {
  HeadDataset query;
  HeadDataset key;
  HeadDataset value;
  std::optional<HeadDataset> output;
  std::optional<HeadDataset> gradient;        ///< [samples, query heads, tokens, value_dim]
  double gradient_scale = 1;                  ///< what stored gradients are multiplied by
  std::optional<HeadDataset> residual;        ///< [tokens, hidden]
  std::optional<HeadDataset> mlp_activation;  ///< [tokens, width]
  std::vector<float> sink_logit;              ///< [query heads], or empty
};

// The caller holds the Hdf5Lock for what opens datasets or asks what they contain, and does not
// hold it for what reads their numbers.

/// Opens the datasets of a layer of so many tokens. Throws DataError.
LayerData open_datasets(const GroupReader& layer, const TraceHeader& header, int tokens);

/// Whether all query heads of the KV head were written.
bool contains_group(const HeadDataset& dataset, int kv_head, const TraceHeader& header);

/// Whether gradients were written for all query heads of the KV head. Throws DataError if only some
/// of the samples were.
bool contains_gradients(const LayerData& data, int kv_head, const TraceHeader& header);

/// The gradients of the query heads of a KV head: per sample one [tokens, value_dim] per head.
/// Throws DataError.
std::vector<std::vector<Matrix>> read_gradients(const LayerData& data, int kv_head,
                                                const TraceHeader& header);

/// Shows all rows of a dataset of one head, in order. Throws DataError.
void for_each_rows(const HeadDataset& dataset, const SeeRows& see);

/// Per token, the squared norm of its row of the residual stream. Throws DataError.
std::vector<double> residual_squares(const HeadDataset& residual);

/// `/model/layers/<layer>/output_projection`, [query heads * value_dim, hidden]; nothing if the
/// file lacks it. Throws DataError.
std::optional<HeadDataset> open_projection(const GroupReader& root, const TraceHeader& header,
                                           int layer);

/// Of that, the rows of each query head of the unit, [value_dim, hidden]. Throws DataError.
std::vector<Matrix> read_projection(const HeadDataset& projection, const TraceHeader& header,
                                    const UnitName& name);

}  // namespace kvsim
