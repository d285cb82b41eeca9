#pragma once

namespace kvsim {

/// Of the numbers of a trace that is written.
enum class ElementType { float16, float32 };

}  // namespace kvsim
