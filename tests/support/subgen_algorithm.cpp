#include "tests/support/subgen_algorithm.h"

#include <cmath>

namespace kvsim::test_support {
namespace {

using Eigen::VectorXd;

VectorXd row(const Matrix& matrix, int i) { return matrix.row(i).cast<double>().transpose(); }

struct Cluster {
  VectorXd x;          // representative
  std::vector<int> S;  // tokens whose keys are the samples
  double n = 0;
};

}  // namespace

std::vector<VectorXd> subgen_algorithm(const Unit& unit, int head, double delta, int s, int t,
                                       const Coin& key_coin, const Coin& value_coin) {
  std::vector<Cluster> D;
  std::vector<int> M(static_cast<std::size_t>(s), -1);
  double mu = 0;
  std::vector<VectorXd> outputs;
  for (int n = 0; n < unit.num_tokens(); ++n) {
    const VectorXd q = row(unit.query[static_cast<std::size_t>(head)], n) * unit.scale;
    const VectorXd k = row(unit.key, n);
    const VectorXd v = row(unit.value, n);

    // UPDATESOFTMAXNORMALIZER, lines 11 to 23
    Cluster* nearest = nullptr;
    for (Cluster& cluster : D) {
      if (nearest == nullptr || (cluster.x - k).norm() < (nearest->x - k).norm()) {
        nearest = &cluster;
      }
    }
    if (nearest != nullptr && (nearest->x - k).norm() <= delta) {
      nearest->n += 1;
      for (int j = 0; j < t; ++j) {
        if (key_coin(n, j, 1 / nearest->n)) nearest->S[static_cast<std::size_t>(j)] = n;
      }
    } else {
      D.push_back({k, std::vector<int>(static_cast<std::size_t>(t), n), 1});
    }

    // UPDATEMATRIXPRODUCT, lines 24 to 28, and line 6
    for (int i = 0; i < s; ++i) {
      const double p = v.squaredNorm() / (mu + v.squaredNorm());
      if (value_coin(n, i, p)) M[static_cast<std::size_t>(i)] = n;
    }
    mu += v.squaredNorm();

    // QUERYSTREAMATTN, lines 29 to 31
    VectorXd z = VectorXd::Zero(v.size());
    for (const int token : M) {
      const VectorXd value = row(unit.value, token);
      z += mu / (s * value.squaredNorm()) * std::exp(q.dot(row(unit.key, token))) * value;
    }
    double tau = 0;
    for (const Cluster& cluster : D) {
      double sum = 0;
      for (const int token : cluster.S) sum += std::exp(q.dot(row(unit.key, token)));
      tau += cluster.n / t * sum;
    }
    outputs.push_back(z / tau);
  }
  return outputs;
}

std::vector<VectorXd> exact_attention(const Unit& unit, int head) {
  std::vector<VectorXd> outputs;
  for (int n = 0; n < unit.num_tokens(); ++n) {
    const VectorXd q = row(unit.query[static_cast<std::size_t>(head)], n) * unit.scale;
    VectorXd product = VectorXd::Zero(unit.value.cols());
    double sum = 0;
    for (int j = 0; j <= n; ++j) {
      const double weight = std::exp(q.dot(row(unit.key, j)));
      product += weight * row(unit.value, j);
      sum += weight;
    }
    outputs.push_back(product / sum);
  }
  return outputs;
}

}  // namespace kvsim::test_support
