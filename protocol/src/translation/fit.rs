//! What a request loses on its way to a lane of another protocol: by the table of [`Feature`], the
//! same way for every pair.

use std::borrow::Cow;

use super::{Feature, LaneFacts, Losses, Refusal, Take, Translator};
use crate::ir::{
    Format, Function, MediaSource, Part, PartBody, Request, Role, Tool, ToolChoice, raw,
};
use lanekeeper_model::gateway::Samplers;

/// The parameter of the function that stands for a tool of free text.
pub const CUSTOM_INPUT: &str = "input";

/// Fits `request` to the lane.
///
/// # Errors
///
/// Something would have to go that changes what is asked for.
pub(super) fn fit(
    request: &mut Request<'_>,
    caller: &dyn Translator,
    lane: &dyn Translator,
    facts: &LaneFacts<'_>,
    losses: &mut Losses,
) -> Result<(), Refusal> {
    if let Some(field) = request.untranslatable.first() {
        return Err(Refusal::untranslatable(field.clone()));
    }
    for field in request.unknown.drain(..) {
        losses.name_given(&field);
    }
    let mut fitting = Fitting { lane, losses };
    fitting.tools(request)?;
    fitting.sampling(request, facts)?;
    fitting.format(request)?;
    fitting.extras(request);
    for message in &mut request.messages {
        if message.name.is_some() && !fitting.keeps(Feature::ParticipantNames)? {
            message.name = None;
        }
        for part in &mut message.parts {
            fitting
                .part(part)
                .map_err(|refusal| placed(refusal, caller, part))?;
        }
        message.parts.retain(is_worth_sending);
    }
    request.messages.retain(|message| !message.parts.is_empty());
    fitting.ending(request)
}

fn placed(refusal: Refusal, caller: &dyn Translator, part: &Part<'_>) -> Refusal {
    Refusal {
        field: format!("{}.type", caller.place(part.at)),
        ..refusal
    }
}

/// Empty text is refused by most vendors and means nothing.
fn is_worth_sending(part: &Part<'_>) -> bool {
    match &part.body {
        PartBody::Text(text) | PartBody::Refusal(text) => !text.is_empty(),
        PartBody::Reasoning(reasoning) => !reasoning.text.is_empty() || reasoning.proof.is_some(),
        _ => true,
    }
}

struct Fitting<'a> {
    lane: &'a dyn Translator,
    losses: &'a mut Losses,
}

impl Fitting<'_> {
    /// True when the lane has a place for `feature`; false when it is left out, and named.
    fn keeps(&mut self, feature: Feature) -> Result<bool, Refusal> {
        match self.lane.takes(feature) {
            Take::Carried => Ok(true),
            Take::Cut => {
                self.losses.name(feature.name());
                Ok(true)
            }
            Take::Dropped => {
                self.losses.name(feature.name());
                Ok(false)
            }
            Take::Refused => Err(Refusal::untranslatable(feature.name())),
        }
    }

    /// As [`Self::keeps`] of what is only comfort, and so never refused.
    fn carries(&mut self, feature: Feature) -> bool {
        let is_carried = self.lane.takes(feature) == Take::Carried;
        if !is_carried {
            self.losses.name(feature.name());
        }
        is_carried
    }

    fn tools(&mut self, request: &mut Request<'_>) -> Result<(), Refusal> {
        self.built_in(request)?;
        for tool in &mut request.tools {
            if let Tool::Custom(custom) = tool {
                if custom.has_grammar {
                    self.losses.name("tools.format");
                }
                *tool = Tool::Function(Function {
                    name: custom.name.clone(),
                    description: custom.description.clone(),
                    parameters: Some(raw(&serde_json::json!({
                        "type": "object",
                        "properties": {CUSTOM_INPUT: {"type": "string"}},
                        "required": [CUSTOM_INPUT],
                    }))),
                    is_strict: false,
                    cache: None,
                });
            }
            if let Tool::Function(function) = tool {
                if function.is_strict && !self.keeps(Feature::StrictTools)? {
                    function.is_strict = false;
                }
                if function.cache.is_some() && !self.carries(Feature::CacheMarks) {
                    function.cache = None;
                }
            }
        }
        if request.tools.is_empty() {
            return self.without_tools(request);
        }
        let choice = match &request.tool_choice {
            None | Some(ToolChoice::Auto) => None,
            Some(ToolChoice::None) => Some(Feature::ToolChoiceNone),
            Some(ToolChoice::Required) => Some(Feature::ToolChoiceRequired),
            Some(ToolChoice::One(_)) => Some(Feature::ToolChoiceOne),
        };
        if let Some(feature) = choice
            && !self.keeps(feature)?
        {
            request.tool_choice = None;
        }
        if request.parallel_tool_calls == Some(false) && !self.keeps(Feature::NoParallelCalls)? {
            request.parallel_tool_calls = None;
        }
        Ok(())
    }

    fn without_tools(&mut self, request: &mut Request<'_>) -> Result<(), Refusal> {
        request.parallel_tool_calls = None;
        match request.tool_choice.take() {
            Some(ToolChoice::Required | ToolChoice::One(_)) => Err(Refusal::new(
                Feature::ToolChoiceOne.name(),
                "demands a tool, and the request has none that the lane can call",
            )),
            _ => Ok(()),
        }
    }

    /// Tools that the caller's vendor runs cannot go elsewhere. Coding agents always offer some, so
    /// beside functions that the model may choose freely they are left out.
    fn built_in(&mut self, request: &mut Request<'_>) -> Result<(), Refusal> {
        let place = { request.tools.iter() }.position(|tool| matches!(tool, Tool::BuiltIn { .. }));
        let Some(place) = place else {
            return Ok(());
        };
        let has_functions =
            { request.tools.iter() }.any(|tool| !matches!(tool, Tool::BuiltIn { .. }));
        let is_free = matches!(
            request.tool_choice,
            None | Some(ToolChoice::Auto | ToolChoice::None)
        );
        if !has_functions || !is_free {
            return Err(Refusal::untranslatable(format!("tools[{place}].type")));
        }
        for tool in &request.tools {
            if let Tool::BuiltIn { kind } = tool {
                self.losses.name_given(&format!("tools.{kind}"));
            }
        }
        request
            .tools
            .retain(|tool| !matches!(tool, Tool::BuiltIn { .. }));
        Ok(())
    }

    fn sampling(
        &mut self,
        request: &mut Request<'_>,
        facts: &LaneFacts<'_>,
    ) -> Result<(), Refusal> {
        let sampling = &mut request.sampling;
        if let Some(temperature) = sampling.temperature
            && temperature > 1.0
            && self.lane.takes(Feature::HighTemperature) != Take::Carried
        {
            self.losses.name(Feature::HighTemperature.name());
            sampling.temperature = Some(1.0);
        }
        if sampling.top_k.is_some() && !self.keeps(Feature::TopK)? {
            sampling.top_k = None;
        }
        if sampling.frequency_penalty.is_some() && !self.keeps(Feature::FrequencyPenalty)? {
            sampling.frequency_penalty = None;
        }
        if sampling.presence_penalty.is_some() && !self.keeps(Feature::PresencePenalty)? {
            sampling.presence_penalty = None;
        }
        if sampling.seed.is_some() && !self.keeps(Feature::Seed)? {
            sampling.seed = None;
        }
        if !sampling.stop.is_empty() && (!facts.accepts.stop || !self.keeps(Feature::Stop)?) {
            self.losses.name(Feature::Stop.name());
            sampling.stop.clear();
        }
        match facts.accepts.samplers {
            Samplers::All => {}
            Samplers::One => {
                if sampling.temperature.is_some() && sampling.top_p.take().is_some() {
                    self.losses.name("top_p");
                }
            }
            Samplers::None => {
                for (value, name) in [
                    (&mut sampling.temperature, "temperature"),
                    (&mut sampling.top_p, "top_p"),
                ] {
                    if value.take().is_some() {
                        self.losses.name(name);
                    }
                }
            }
        }
        if request.choices.is_some_and(|choices| choices > 1) && !self.keeps(Feature::Choices)? {
            request.choices = None;
        }
        Ok(())
    }

    fn format(&mut self, request: &mut Request<'_>) -> Result<(), Refusal> {
        let feature = match &request.format {
            None | Some(Format::Text) => None,
            Some(Format::Json) => Some(Feature::JsonFormat),
            Some(Format::Schema(_)) => Some(Feature::SchemaFormat),
        };
        if let Some(feature) = feature
            && !self.keeps(feature)?
        {
            request.format = None;
        }
        if request.reasoning.budget.is_some() && !self.keeps(Feature::ReasoningBudget)? {
            request.reasoning.budget = None;
        }
        Ok(())
    }

    fn extras(&mut self, request: &mut Request<'_>) {
        let extras = &mut request.extras;
        if extras.user.is_some() && !self.carries(Feature::User) {
            extras.user = None;
        }
        if extras.metadata.is_some() && !self.carries(Feature::Metadata) {
            extras.metadata = None;
        }
        if extras.service_tier.is_some() && !self.carries(Feature::ServiceTier) {
            extras.service_tier = None;
        }
        if extras.prompt_cache_key.is_some() && !self.carries(Feature::PromptCacheKey) {
            extras.prompt_cache_key = None;
        }
    }

    fn part(&mut self, part: &mut Part<'_>) -> Result<(), Refusal> {
        if part.cache.is_some() && !self.carries(Feature::CacheMarks) {
            part.cache = None;
        }
        match &mut part.body {
            PartBody::Foreign { kind } => {
                let reason = format!(
                    "\"{}\" means nothing in the lane's protocol",
                    kind.escape_debug()
                );
                Err(Refusal::new(String::new(), reason))
            }
            PartBody::Image(media) => {
                self.kept(Feature::Images)?;
                if media.detail.is_some() && !self.carries(Feature::ImageDetail) {
                    media.detail = None;
                }
                self.source(&media.source, Feature::ImageUrls)
            }
            PartBody::Document(media) => {
                self.kept(Feature::Documents)?;
                self.source(&media.source, Feature::DocumentUrls)
            }
            PartBody::Audio(media) => {
                self.kept(Feature::Audio)?;
                // No vendor fetches sound.
                self.source(&media.source, Feature::Audio)
            }
            PartBody::ToolCall(call) if call.is_custom => {
                let input = serde_json::json!({CUSTOM_INPUT: call.arguments.0});
                call.arguments.0 = Cow::Owned(input.to_string());
                call.is_custom = false;
                Ok(())
            }
            PartBody::ToolResult(result) => {
                result.is_custom = false;
                if result.is_error && !self.keeps(Feature::ToolErrors)? {
                    result.is_error = false;
                }
                for inner in &mut result.content {
                    if matches!(inner.body, PartBody::Image(_)) {
                        self.kept(Feature::ToolResultImages)?;
                    }
                    self.part(inner)?;
                }
                result.content.retain(is_worth_sending);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// A part is never left out in silence: what is not carried is refused.
    fn kept(&mut self, feature: Feature) -> Result<(), Refusal> {
        match self.keeps(feature)? {
            true => Ok(()),
            false => Err(Refusal::untranslatable(feature.name())),
        }
    }

    fn source(&mut self, source: &MediaSource<'_>, by_url: Feature) -> Result<(), Refusal> {
        match source {
            MediaSource::Url(_) => self.kept(by_url),
            MediaSource::Base64 { .. } | MediaSource::Text(_) => Ok(()),
        }
    }

    /// A conversation that ends with the model's own words.
    fn ending(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        if request.messages.is_empty() {
            return Err(Refusal::new("messages", "say nothing"));
        }
        let is_prefill = { request.messages.last() }.is_some_and(|last| {
            last.role == Role::Assistant && { last.parts.iter() }
                .all(|part| !matches!(part.body, PartBody::ToolCall(_)))
        });
        if is_prefill {
            self.kept(Feature::Prefill)?;
        }
        Ok(())
    }
}
