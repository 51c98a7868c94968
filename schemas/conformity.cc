#include "schemas/conformity.h"

#include <flatbuffers/idl.h>
#include <flatbuffers/reflection.h>
#include <flatbuffers/util.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string_view>

namespace baton::schemas {
namespace {

using reflection::BaseType;

// A schema in the parser's form and in its own binary form, which lies inside the parser.
struct Parsed {
  std::unique_ptr<flatbuffers::Parser> parser;
  const reflection::Schema* schema = nullptr;
};

Result<Parsed> Parse(const std::string& path) {
  std::string text;
  if (!flatbuffers::LoadFile(path.c_str(), false, &text)) {
    return InvalidArgumentError(path + ": cannot be read");
  }
  flatbuffers::IDLOptions options;
  options.require_explicit_ids = true;
  Parsed parsed{std::make_unique<flatbuffers::Parser>(options), nullptr};
  const std::string folder = flatbuffers::StripFileName(path);
  const char* folders[] = {folder.c_str(), nullptr};
  if (!parsed.parser->Parse(text.c_str(), folders, path.c_str())) {
    return InvalidArgumentError(path + ": " + parsed.parser->error_);
  }
  parsed.parser->Serialize();
  parsed.schema = reflection::GetSchema(parsed.parser->builder_.GetBufferPointer());
  return parsed;
}

std::string_view View(const flatbuffers::String* text) {
  return text == nullptr ? std::string_view() : std::string_view(text->c_str(), text->size());
}

// Null when there is none. Linear, since the library's own LookupByKey draws false warnings from
// gcc 12 under AddressSanitizer; schemas are small.
template <typename Named>
const Named* Find(const flatbuffers::Vector<flatbuffers::Offset<Named>>& all,
                  const flatbuffers::String* name) {
  for (const Named* one : all) {
    if (View(one->name()) == View(name)) return one;
  }
  return nullptr;
}

// "[baton.fb.Endpoint]": what a field holds, by name, so that two schemas can be compared.
std::string TypeName(const reflection::Schema& schema, const reflection::Type& type) {
  const bool vector = type.base_type() == BaseType::Vector;
  const BaseType base = vector ? type.element() : type.base_type();
  std::string name = reflection::EnumNameBaseType(base);
  if (base == BaseType::Obj) {
    name = View(schema.objects()->Get(type.index())->name());
  } else if (type.index() >= 0) {
    name = View(schema.enums()->Get(type.index())->name());
  }
  return vector ? "[" + name + "]" : name;
}

class Comparison {
 public:
  Comparison(const reflection::Schema& before, const reflection::Schema& after)
      : before_(before), after_(after) {}

  std::vector<std::string> Run() {
    if (View(before_.file_ident()) != View(after_.file_ident())) {
      Add("file identifier {} became {}", View(before_.file_ident()), View(after_.file_ident()));
    }
    CompareRoots();
    for (const reflection::Object* object : *before_.objects()) CompareObject(*object);
    for (const reflection::Enum* enumeration : *before_.enums()) CompareEnum(*enumeration);
    return std::move(violations_);
  }

 private:
  template <typename... Args>
  void Add(fmt::format_string<Args...> format, Args&&... args) {
    violations_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  void CompareRoots() {
    const auto name = [](const reflection::Object* root) {
      return root == nullptr ? std::string_view("none") : View(root->name());
    };
    if (name(before_.root_table()) != name(after_.root_table())) {
      Add("root {} became {}", name(before_.root_table()), name(after_.root_table()));
    }
  }

  void CompareObject(const reflection::Object& before) {
    const auto* after = Find(*after_.objects(), before.name());
    if (after == nullptr) return Add("table {} is gone", View(before.name()));
    if (before.is_struct() != after->is_struct()) {
      return Add("{} turned from table to struct or back", View(before.name()));
    }
    if (before.is_struct() && (before.bytesize() != after->bytesize() ||
                               before.fields()->size() != after->fields()->size())) {
      Add("struct {} changed its shape", View(before.name()));
    }
    int last_id = -1;
    for (const reflection::Field* field : *before.fields()) {
      last_id = std::max(last_id, int{field->id()});
      CompareField(before, *field, Find(*after->fields(), field->name()));
    }
    for (const reflection::Field* field : *after->fields()) {
      const bool added = Find(*before.fields(), field->name()) == nullptr;
      if (added && field->id() <= last_id) {
        Add("{}.{}: new, yet its id {} is not past {}", View(before.name()), View(field->name()),
            field->id(), last_id);
      }
      if (added && field->required()) {
        Add("{}.{}: new, yet required", View(before.name()), View(field->name()));
      }
    }
  }

  void CompareField(const reflection::Object& object, const reflection::Field& before,
                    const reflection::Field* after) {
    const std::string name = fmt::format("{}.{}", View(object.name()), View(before.name()));
    if (after == nullptr) return Add("{}: removed or renamed", name);
    if (before.id() != after->id() || before.offset() != after->offset()) {
      Add("{}: id {} became {}", name, before.id(), after->id());
    }
    const std::string old_type = TypeName(before_, *before.type());
    const std::string new_type = TypeName(after_, *after->type());
    if (old_type != new_type) Add("{}: type {} became {}", name, old_type, new_type);
    if (before.default_integer() != after->default_integer() ||
        before.default_real() != after->default_real()) {
      Add("{}: its default changed", name);
    }
    if (before.optional() != after->optional() || before.required() != after->required()) {
      Add("{}: optional or required changed", name);
    }
  }

  void CompareEnum(const reflection::Enum& before) {
    const auto* after = Find(*after_.enums(), before.name());
    if (after == nullptr) return Add("enum {} is gone", View(before.name()));
    if (before.underlying_type()->base_type() != after->underlying_type()->base_type()) {
      Add("enum {} changed its width", View(before.name()));
    }
    for (const reflection::EnumVal* value : *before.values()) {
      const auto* same = Find(*after->values(), value->name());
      if (same == nullptr || same->value() != value->value()) {
        Add("enum {}: {} is no longer {}", View(before.name()), View(value->name()),
            value->value());
      }
    }
  }

  const reflection::Schema& before_;
  const reflection::Schema& after_;
  std::vector<std::string> violations_;
};

}  // namespace

Result<std::vector<std::string>> Violations(const std::string& old_path,
                                            const std::string& new_path) {
  ASSIGN_OR_RETURN(const Parsed before, Parse(old_path));
  ASSIGN_OR_RETURN(const Parsed after, Parse(new_path));
  std::vector<std::string> violations = Comparison(*before.schema, *after.schema).Run();
  const std::string conform = after.parser->ConformTo(*before.parser);
  if (!conform.empty()) violations.push_back("flatc --conform: " + conform);
  return violations;
}

}  // namespace baton::schemas
