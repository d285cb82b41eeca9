#pragma once

#include <map>
#include <optional>
#include <vector>

#include "traces/datasets.h"
#include "traces/hdf5/group_reader.h"
#include "traces/head_dataset.h"
#include "traces/trace.h"

namespace kvsim {

/// The datasets of a layer, opened and checked for type and shape.
struct LayerData {
  std::map<Dataset, HeadDataset> matrices;        ///< those that are there
  double gradient_scale = 1;                      ///< what stored gradients are multiplied by
  std::vector<float> sink_logit;                  ///< [query heads], or empty
  std::optional<std::vector<int>> selected = {};  ///< the shape of the dataset, if it is there

  const HeadDataset& query() const { return matrices.at(Dataset::query); }
  const HeadDataset& key() const { return matrices.at(Dataset::key); }
  const HeadDataset& value() const { return matrices.at(Dataset::value); }

  /// Null if it is not there.
  const HeadDataset* find(Dataset dataset) const;
};

// The caller holds the Hdf5Lock for what opens datasets or asks what they contain, and does not
// hold it for what reads their numbers.

/// Opens the datasets of a layer of so many tokens, of which LayerInfo::shape and kv_from are
/// known. Throws DataError.
LayerData open_datasets(const GroupReader& layer, const LayerInfo& info, int tokens);

/// Whether the dataset is there and all heads of the KV head were written, it or its query heads.
/// Throws DataError if only some of the samples of a head were.
bool contains_unit(const LayerData& data, Dataset dataset, int kv_head, const LayerShape& shape);

/// The gradients of the query heads of a KV head: per sample one [tokens, value_dim] per head.
/// Throws DataError.
std::vector<std::vector<Matrix>> read_gradients(const LayerData& data, int kv_head,
                                                const LayerShape& shape);

/// Shows all rows of a dataset of one head, in order. Throws DataError.
void for_each_rows(const HeadDataset& dataset, const SeeRows& see);

/// Per token, the squared norm of its row of the residual stream. Throws DataError.
std::vector<double> residual_squares(const HeadDataset& residual);

/// `/model/layers/<layer>/output_projection`, [query heads * value_dim, hidden]; nothing if the
/// file lacks it. Throws DataError.
std::optional<HeadDataset> open_projection(const GroupReader& root, const LayerShape& shape,
                                           int layer);

/// Of that, the rows of each query head of the unit, [value_dim, hidden]. Throws DataError.
std::vector<Matrix> read_projection(const HeadDataset& projection, const LayerShape& shape,
                                    const UnitName& name);

}  // namespace kvsim
