#pragma once

#include <kvsim/plugin.h>

#include <string>
#include <vector>

#include "policies/parameters/params.h"

namespace kvsim {

/// The parameters that a plug-in declares. `owner` says whose they are: "libmine.so: policy
/// 'mine'". Throws DataError, which names the owner and the parameter, for what is no declaration.
std::vector<Param> parameters_of(const kvsim_parameter* parameters, std::int32_t count,
                                 const std::string& owner);

/// The values as the functions of a plug-in get them, in declared order: amounts in tokens of
/// `budget`, choices by index.
std::vector<double> numbers_of(const std::vector<Param>& declared, const Params& params,
                               int budget);

/// The text of a descriptor. Throws DataError if it is null, though `is_required`, or if it is not
/// one line. `what` names it: "libmine.so: policy 'mine': keeps".
std::string text_of(const char* text, bool is_required, const std::string& what);

/// Throws DataError unless `name` has lower-case letters, digits, '_' and, if `allows_hyphens`,
/// '-', and begins with a letter.
void check_name(const std::string& name, bool allows_hyphens, const std::string& what);

/// Throws DataError unless a descriptor, whose first members are `version` and `size`, is that of
/// this kvsim/plugin.h. A larger one has members that this kvsim does not know; a smaller one will
/// be read once the header has grown.
void check_descriptor(std::int32_t version, std::int32_t size, std::size_t expected_size,
                      const std::string& what);

}  // namespace kvsim
